"""A campaign file that names a sampler: the keys of TrialSpec in TOML, and what the command line says instead."""

from pathlib import Path
from typing import Any

import msgspec

from pp3.harness.campaign import CampaignSpec
from pp3.harness.document import explain, promised, read
from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError
from pp3.harness.trial.plan import TrialSpec, check

COMMAND = "pp3 qualify"
OTHERS = {field.name for field in msgspec.structs.fields(TrialSpec)} - {
    field.name for field in msgspec.structs.fields(CampaignSpec)
}


def sampler_of(path: Path) -> str:
    """The sampler that a campaign file names; "" if it names none.

    CampaignError if it cannot be read, or has a key that only another sampler than our own takes and names none.
    """
    document = read(path)
    foreign = [key for key in document if key in OTHERS]
    if foreign and "sampler" not in document:
        raise CampaignError(
            f"{path}: {foreign[0]} = {echo(document[foreign[0]])} is for another sampler, and none is named; add "
            f'sampler = "..." to the file, or give --sampler (`pp3 samplers` lists them)'
        )
    return str(document.get("sampler", ""))


def load(path: Path) -> TrialSpec:
    """The plan of a campaign file. CampaignError names the key, the value and what would work.

    A file named in `sampler` is looked up beside the campaign file.
    """
    document = read(path)
    return _of_document(document | promised(document, str(path)), path)


def chosen(
    path: Path | None,
    sampler: str,
    targets: tuple[str, ...],
    requests: int | None,
    detect: float | None,
    tolerance: float | None,
) -> tuple[TrialSpec, bool]:
    """The plan of a file, if there is one, with what the command line says instead; whether it fixes the requests."""
    document = read(path) if path else {}
    document |= promised(document, str(path))
    other = sampler if sampler != str(document.get("sampler", "")) else None
    options = {
        "sampler": other,
        "targets": list(targets) or None,
        "requests": requests,
        "detect": detect,
        "tolerance": tolerance,
    }
    said: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    spec = msgspec.structs.replace(_of_document(document, path) if path else TrialSpec(), **said)
    check(spec, str(path) if path and not said.keys() - {"sampler"} else COMMAND)
    return spec, requests is not None or "requests" in document


def _of_document(document: dict[str, Any], path: Path) -> TrialSpec:
    try:
        spec = msgspec.convert(document, TrialSpec)
    except msgspec.ValidationError as error:
        raise CampaignError(f"{path}: {explain(str(error), document, (TrialSpec,))}") from None
    where, _, name = spec.sampler.partition(":")
    if where.endswith(".py") and not Path(where).is_absolute():
        spec = msgspec.structs.replace(spec, sampler=f"{path.parent / where}:{name}")
    return spec
