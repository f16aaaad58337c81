"""`pp3 prepare`: write the two overlays of a pinned vLLM, with an attestation, into a new folder. Nothing is deployed.

The attestation names, for each file, the release's SHA-256, every edit by name with the function that it touches, and
the SHA-256 of the result. All files are read-only.
"""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pp3 import __version__
from pp3.harness import canonical
from pp3.harness.errors import Exit, PP3Error, ReceiptError
from pp3.harness.image.pins import public
from pp3.harness.overlay.pins import MARKERS, RUNNER, SAMPLER, overlay_of
from pp3.harness.overlay.refusal import OverlayError, Reason
from pp3.harness.overlay.sources import checked

ATTESTATION = "attestation.json"
READ_ONLY = 0o444
STATUS = "experimental: made for review and qualification, deployed by nobody"


def prepare(image: Path | None, out: Path) -> dict[str, Any]:
    """Write the overlays of an image into `out`, which must not exist; the attestation.

    OverlayError for anything unexpected, with its reason's name; PP3Error (69) without LibCST. Nothing is left behind.
    """
    if out.exists():
        raise OverlayError(Reason.EXISTS, f"{out} is there already: give a new folder")
    found, sources = checked(image)
    version = public(found.version)
    results = edited(version, sources)
    attestation = attest(version, sources, results)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".overlay-", dir=out.parent) as scratch:
        made = Path(scratch) / "overlay"
        for name, content in {**results, ATTESTATION: canonical.encode(attestation) + b"\n"}.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(READ_ONLY)
        try:
            made.rename(out)
        except OSError:
            if out.exists():  # somebody else was first
                raise OverlayError(Reason.EXISTS, f"{out} is there already: give a new folder") from None
            raise
    return attestation


def edited(version: str, sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """The two files with their edits. OverlayError for anything unexpected; PP3Error (69) without LibCST."""
    try:
        from pp3.harness.overlay import edits
        from pp3.harness.overlay.changes import CHANGES
    except ModuleNotFoundError as error:
        raise PP3Error(
            f"{error.name} is not installed, and an overlay needs it: pip install 'pp3[image]'", Exit.UNAVAILABLE
        ) from None
    pinned, results = overlay_of(version), {}
    for name, content in sources.items():
        change = CHANGES[version][name]
        results[name] = edits.apply(content, change.edits, change.marker, name)
        digest = hashlib.sha256(results[name]).hexdigest()
        if digest != pinned[name].result:
            raise OverlayError(
                Reason.RESULT,
                f"{name} comes out with sha256 {digest}, reviewed was {pinned[name].result}:"
                " another LibCST, or other edits; nothing was written",
            )
    return results


def attest(version: str, sources: Mapping[str, bytes], results: Mapping[str, bytes]) -> dict[str, Any]:
    """What was made of what, in plain values."""
    from pp3.harness.overlay.changes import CHANGES

    return {
        "files": [
            {
                "edits": [{"function": edit.function, "name": edit.name} for edit in CHANGES[version][name].edits],
                "name": name,
                "sha256": hashlib.sha256(results[name]).hexdigest(),
                "sourceSha256": hashlib.sha256(sources[name]).hexdigest(),
            }
            for name in sorted(sources)
        ],
        "markers": dict(MARKERS),
        "status": STATUS,
        "tool": {"name": "pp3", "version": __version__},
        "vllm": version,
    }


def read(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The attestation of an overlay folder, and its two files by name, all as they were reviewed.

    OverlayError for a folder that is none, a file that is missing, changed or not its attestation's, or a result that
    was never reviewed.
    """
    path = folder / ATTESTATION
    try:
        attestation = canonical.decode(path.read_bytes().removesuffix(b"\n"))
        version, files = attestation["vllm"], {row["name"]: row for row in attestation["files"]}
    except OSError as error:
        raise OverlayError(Reason.ATTESTATION, f"{path}: {error.strerror}; pp3 prepare --out writes one") from None
    except (ReceiptError, KeyError, TypeError) as error:
        raise OverlayError(Reason.ATTESTATION, f"{path} is no attestation: {error}") from None
    pinned, contents = overlay_of(str(version)), {}
    if files.keys() != pinned.keys() or attestation.get("markers") != MARKERS:
        raise OverlayError(Reason.ATTESTATION, f"{path} names other files or markers than those of vllm {version}")
    for name in (SAMPLER, RUNNER):
        try:
            contents[name] = (folder / name).read_bytes()
        except OSError as error:
            raise OverlayError(Reason.ATTESTATION, f"{folder / name}: {error.strerror}") from None
        digest, said = hashlib.sha256(contents[name]).hexdigest(), files[name].get("sha256")
        if not digest == said == pinned[name].result:
            raise OverlayError(
                Reason.ATTESTATION,
                f"{folder / name} has sha256 {digest}, its attestation says {said}, reviewed was {pinned[name].result}",
            )
        if files[name].get("sourceSha256") != pinned[name].source:
            raise OverlayError(Reason.ATTESTATION, f"{path}: the source of {name} is not the release's")
    return attestation, contents


def lines(attestation: dict[str, Any], out: Path) -> list[str]:
    """What is said on the terminal."""
    said = [f"vllm {attestation['vllm']}: two overlays in {out}, {STATUS}"]
    for row in attestation["files"]:
        said += [f"{row['name']}", f"  from sha256 {row['sourceSha256']}", f"  to   sha256 {row['sha256']}"]
        said += [f"  {edit['name']:<22}{edit['function']}" for edit in row["edits"]]
    return [
        *said,
        f"review them line by line (docs/overlays.md): diff each with the release's file; {out / ATTESTATION}",
    ]


def run_command(image: Path | None, out: Path, as_json: bool) -> int:
    """Everything the command does; its exit code."""
    attestation = prepare(image, out)
    if as_json:
        click.echo(canonical.encode(attestation).decode())
    else:
        for line in lines(attestation, out):
            click.echo(line)
    return Exit.OK
