"""How a vLLM image was loaded, in the receipt of the trial that used it: recorded, bound, shown, held to the rest."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pp3.harness import canonical
from pp3.harness.errors import CampaignError
from pp3.harness.evidence import provenance
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.evidence.receipt import write
from pp3.harness.evidence.verify import Verified, verify
from pp3.harness.image import pins
from pp3.harness.image.load import Loaded
from pp3.harness.image.pins import Part
from pp3.harness.report.render import page
from pp3.harness.samplers.contract import Description
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Message, Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run
from pp3.harness.trial.sources import image_of, of_sampler

VERSION = "0.33.0"
LOADER = "pp3/harness/image/load.py"
PINNED = pins.PINS[VERSION]
FILES = {name: PINNED.files[name] for name in PINNED.members(Part.TOPK_TOPP)}
Statement = dict[str, Any]


def loaded(part: Part = Part.TOPK_TOPP) -> Loaded:
    """As load() would make it, without the files."""
    return Loaded(
        version=VERSION,
        part=part,
        modules={},
        entries={},
        files=FILES,
        shims=("vllm", "vllm.triton_utils"),
        log1p="numpy",
        mended=("log1p", "masks"),
        forbidden=(),
        before=frozenset(),
    )


class FromImage(Multinomial):
    """Says that it is made of an image's files."""

    def __init__(self) -> None:
        self.loaded = loaded()

    def describe(self) -> Description:
        return replace(super().describe(), version=VERSION, files=tuple(FILES.items()))


@pytest.fixture(scope="module")
def made() -> Statement:
    """A receipt of a sampler with an image."""
    sampler = FromImage()
    trial = make(TrialSpec(sampler="x", targets=["rows-of-8"], requests=500), sampler.describe(), "test")
    measured = run(trial, sampler, Seed.of(trial.plan_sha256, 3), "cpu", lambda *_: None)
    sources = Sources(**of_sampler(sampler, sampler.describe(), set()) | {"packages": {}})
    heard = msgspec.json.decode(msgspec.json.encode(sources), type=Message)  # as it travels
    assert isinstance(heard, Sources)
    found = Found(trial=trial, device=identity("cpu"), measured=measured, sources=heard)
    return trial_receipt.build(found, 3, "given", datetime.now(UTC), trial_receipt.judge(found))


def checked(statement: Statement, folder: Path, source: Path | None = None) -> Verified:
    """Written under its own digest and verified."""
    path = write(statement, folder)
    return verify(path, path.read_bytes(), source)


def test_it_is_recorded_bound_and_verified(made: Statement, tmp_path: Path) -> None:
    image = made["predicate"]["sampler"]["image"]
    assert image == loaded().plain()
    assert LOADER in {subject["name"] for subject in made["subject"]}
    found = checked(made, tmp_path, provenance.TREE)
    assert found.ok, found.sentence
    assert found.current == "yes"


def test_nothing_of_a_place_or_a_host_is_in_it(made: Statement) -> None:
    """Names as in the wheel: no folder, no home."""
    assert str(Path.home()).encode() not in canonical.encode(made["predicate"]["sampler"]["image"])
    assert all(not file["name"].startswith("/") for file in made["predicate"]["sampler"]["image"]["files"])


def test_the_page_shows_it(made: Statement) -> None:
    text = re.sub(r"<[^>]*>", "", page(canonical.encode(made), made))
    assert f"vLLM {VERSION}, part topk-topp" in text
    assert "log1p by numpy; the interpreter was given log1p, masks" in text


def without_the_field(statement: Statement) -> None:
    del statement["predicate"]["sampler"]["image"]


def with_none(statement: Statement) -> None:
    statement["predicate"]["sampler"]["image"] = None


@pytest.mark.parametrize("change", [without_the_field, with_none])
def test_a_receipt_without_one_verifies_by_the_sources_of_its_day(
    change: Callable[[Statement], None], made: Statement, tmp_path: Path
) -> None:
    """Receipts before the field, and samplers that have no image: nothing of it is bound."""
    statement = copy.deepcopy(made)
    change(statement)
    statement["subject"] = provenance.sources("trial")
    assert LOADER not in {subject["name"] for subject in statement["subject"]}
    found = checked(statement, tmp_path, provenance.TREE)
    assert found.ok, found.sentence
    assert found.current == "yes"
    assert ">image<" not in page(canonical.encode(statement), statement)


def test_an_image_whose_loader_is_not_bound_is_stale(made: Statement, tmp_path: Path) -> None:
    statement = copy.deepcopy(made)
    statement["subject"] = provenance.sources("trial")
    assert checked(statement, tmp_path, provenance.TREE).current == "no"


def set_to(*path: str | int, to: Any) -> Callable[[Statement], None]:
    """Change one value of the image."""

    def change(statement: Statement) -> None:
        place = statement["predicate"]["sampler"]["image"]
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = to

    return change


def other_bytes(statement: Statement) -> None:
    """Consistent, and not the release's."""
    sampler = statement["predicate"]["sampler"]
    name = sampler["image"]["files"][0]["name"]
    sampler["image"]["files"][0]["sha256"] = "0" * 64
    sampler["files"] = [[n, "0" * 64 if n.endswith(name) else d] for n, d in sampler["files"]]


TAMPERED: dict[str, tuple[Callable[[Statement], None], str]] = {
    "an unknown field": (set_to("place", to="/home/me"), "shape"),
    "another log1p": (set_to("log1p", to="mine"), "shape"),
    "another part": (set_to("part", to="engine"), "shape"),
    "a path for a name": (set_to("files", 0, "name", to="/home/me/vllm.py"), "shape"),
    "a digest that is none": (set_to("files", 0, "sha256", to="abc"), "shape"),
    "another version": (set_to("version", to="0.28.0"), "plan"),
    "another digest than the sampler's files": (set_to("files", 0, "sha256", to="0" * 64), "plan"),
    "a file less": (lambda s: s["predicate"]["sampler"]["image"]["files"].pop(), "plan"),
    "bytes that are not the release's": (other_bytes, "plan"),
}


@pytest.mark.parametrize(("change", "step"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_refused_at_its_step(
    change: Callable[[Statement], None], step: str, made: Statement, tmp_path: Path
) -> None:
    statement = copy.deepcopy(made)
    change(statement)
    found = checked(statement, tmp_path)
    assert (found.ok, found.steps[-1].name, found.steps[-1].outcome) == (False, step, "FAIL"), found.sentence


def test_a_sampler_without_an_image_has_none() -> None:
    assert image_of(Multinomial()) is None
    assert image_of(object()) is None


def test_one_image_under_two_names_is_one_and_two_are_refused() -> None:
    sampler = FromImage()
    vars(sampler)["again"] = sampler.loaded
    assert image_of(sampler) == loaded().plain()
    vars(sampler)["other"] = loaded(Part.V2)
    with pytest.raises(CampaignError, match="keeps 2 vLLM images"):
        image_of(sampler)
