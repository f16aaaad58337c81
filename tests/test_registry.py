"""Samplers by name: built-in ones, entry points, modules and files; nothing is imported until it is loaded."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.samplers import registry
from pp3.harness.samplers.registry import Entry, find, load, missing


def test_every_built_in_name_is_its_own() -> None:
    entries = registry.built_in()
    assert len({entry.name for entry in entries}) == len(entries) > 10
    assert all(entry.about and ":" in entry.target for entry in entries)


def test_every_built_in_adapter_exists() -> None:
    """Its file has the object that the catalogue names; nothing is imported for it."""
    for entry in registry.built_in():
        module, _, name = entry.target.partition(":")
        path = Path(registry.__file__).parent / f"{module.rpartition('.')[2]}.py"
        text = path.read_text("utf-8")
        assert f"class {name}" in text or f"def {name}(" in text or f"{name} = " in text, entry


def test_looking_up_imports_nothing() -> None:
    code = (
        "import sys\n"
        "from pp3.harness.samplers import registry\n"
        "[registry.missing(e, False) for e in registry.everything().values()]; registry.find('a.b:c')\n"
        "print([m for m in ('torch', 'triton', 'flashinfer', 'vllm', 'transformers') if m in sys.modules])\n"
    )
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    )


def points(monkeypatch: pytest.MonkeyPatch, **named: str) -> None:
    """Entry points of installed packages."""
    found = [EntryPoint(name.replace("_", "-"), value, registry.GROUP) for name, value in named.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: found if group == registry.GROUP else [])


def test_an_installed_package_offers_a_sampler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is listed, found by its name, and loaded from its module."""
    points(monkeypatch, their_sampler="pp3.harness.samplers.torch_controls:Multinomial")
    entry = find("their-sampler")
    assert (entry.target, entry.about) == (
        "pp3.harness.samplers.torch_controls:Multinomial",
        "from pp3.harness.samplers.torch_controls",
    )
    assert load(entry).describe().name == "torch-multinomial"
    assert cli.run(["samplers"]) == Exit.OK
    assert any(line.split()[:2] == ["yes", "their-sampler"] for line in capsys.readouterr().out.splitlines())


def test_a_name_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    points(monkeypatch, torch_multinomial="theirs:Multinomial")
    with pytest.raises(CampaignError, match="sampler 'torch-multinomial' of theirs:Multinomial is taken"):
        find("torch-multinomial")


def test_the_list_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pp3.harness.backends.cuda_available", lambda: False)
    assert cli.run(["samplers"]) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split()[:2] == ["yes", "torch-multinomial"] for line in lines)
    [at] = [number for number, line in enumerate(lines) if line.split()[:2] == ["no", "flashinfer-probs"]]
    following = next(number for number in range(at + 1, len(lines)) if not lines[number].startswith(" "))
    assert " ".join(" ".join(lines[at:following]).split()).endswith("]")  # why, folded
    assert any(line.startswith("Your own: ") for line in lines)
    assert cli.run(["samplers", "--json"]) == Exit.OK
    assert '"name":"torch-multinomial"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entry", "gpu", "reason"),
    [
        (Entry(name="a", target="m:x", about=""), False, ""),
        (Entry(name="a", target="m:x", about="", needs=("torch",)), False, ""),
        (Entry(name="a", target="m:x", about="", needs=("torch", "no_such")), True, "no_such is not installed"),
        (Entry(name="a", target="m:x", about="", gpu=True), False, "needs a CUDA GPU"),
        (Entry(name="a", target="m:x", about="", gpu=True), True, ""),
        (
            Entry(name="a", target="m:x", about="", image="0.0.1"),
            True,
            "vllm 0.0.1 is neither installed nor fetched: make image",
        ),
    ],
)
def test_why_one_cannot_run(entry: Entry, gpu: bool, reason: str) -> None:
    assert missing(entry, gpu).startswith(reason)
    assert bool(missing(entry, gpu)) == bool(reason)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def given(target: str) -> Any:
    """What is loaded for a name that the user gave."""
    return load(find(target))


def test_a_class_a_function_and_an_object(folder: Path) -> None:
    (folder / "own_thing.py").write_text(
        "class Mine:\n    def describe(self): return 1\n    def run(self, batch): return 2\n"
        "made = Mine()\ndef make(): return made\nclass Inner:\n    held = made\nsampler = made\n"
    )
    module = given("own_thing.py:Mine")
    assert type(module).__name__ == "Mine"
    one = given("own_thing:made")
    assert given("own_thing:make") is one
    assert given("own_thing:Inner.held") is one
    assert given("own_thing:") is one


def test_a_file_may_import_its_neighbours(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbour_of_mine.py").write_text("X = 7\n")
    (folder / "sub" / "file_of_mine.py").write_text("import neighbour_of_mine\nx = neighbour_of_mine\n")
    assert given("sub/file_of_mine.py:x").X == 7


@pytest.mark.parametrize("name", ["json", "numpy", "torch", "random", "with-dash", "1st", "two.dots"])
def test_a_file_hides_no_module(name: str, folder: Path) -> None:
    """Whatever it is called."""
    held = {key: sys.modules.get(key) for key in ("json", "numpy", "torch", "random")}
    (folder / f"{name}.py").write_text("x = __name__\n")
    assert given(f"{name}.py:x").startswith("_of_the_user_")
    assert {key: sys.modules.get(key) for key in held} == held
    import random

    assert random.random() < 1


def test_a_module_is_looked_up_in_the_current_folder_last(folder: Path) -> None:
    (folder / "json.py").write_text("x = 5\n")
    with pytest.raises(CampaignError, match="json has no 'x'"):
        given("json:x")
    (folder / "only_here.py").write_text("x = 5\n")
    assert given("only_here:x") == 5


WRONG = {
    "no file": ("nowhere.py:x", "nowhere.py: no such file"),
    "a folder": ("folder.py:x", "folder.py: no such file"),
    "no module": (
        "no_such_module:x",
        "importing no_such_module raised ModuleNotFoundError: No module named 'no_such_module'",
    ),
    "a neighbour that is missing": (
        "lacks.py:x",
        "importing lacks.py raised ModuleNotFoundError: No module named 'no_such'",
    ),
    "a module that raises": ("raises.py:x", "importing raises.py raised ZeroDivisionError: division by zero"),
    "a module that exits": ("exits.py:x", "importing exits.py raised SystemExit: 2"),
    "a module that cannot be read": ("syntax.py:x", "importing syntax.py raised SyntaxError: "),
    "no object": ("fine.py:samplr", "fine.py has no 'samplr'; did you mean 'sampler'?"),
    "no object like it": ("fine.py:zzz", "fine.py has no 'zzz'"),
    "a class that needs more": ("fine.py:Needs", "making it raised TypeError: "),
    "a function that exits": ("fine.py:leave", "making it raised SystemExit: 4"),
}


@pytest.mark.parametrize(("name", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_loaded(name: str, message: str, folder: Path) -> None:
    """Named with the reason, as bad input."""
    (folder / "folder.py").mkdir()
    for file, text in {
        "lacks": "import no_such\n",
        "raises": "1 / 0\n",
        "exits": "import sys\nsys.exit(2)\n",
        "syntax": "def\n",
        "fine": "import sys\nsampler = 1\nclass Needs:\n    def __init__(self, x): pass\ndef leave(): sys.exit(4)\n",
    }.items():
        (folder / f"{file}.py").write_text(text)
    with pytest.raises(CampaignError) as error:
        given(name)
    assert str(error.value).startswith(f"sampler {name}: {message}") or str(error.value).startswith(message)
    assert error.value.exit_code == Exit.USAGE


def test_an_image_is_for_those_that_need_one(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"--image .*: sampler torch-multinomial takes none"):
        load(find("torch-multinomial"), tmp_path)
