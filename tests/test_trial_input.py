"""Bad input of a trial, by file and by option: one line that names the value and the way out, and its exit code."""

import json
from pathlib import Path

import pytest
from refusals import MINE, refused

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.trial import campaign_file, parent
from pp3.harness.trial.plan import QUICK


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


AT_ONCE: dict[str, tuple[list[str], str]] = {
    "a name that is almost one": (
        ["--sampler", "torch-multinomia"],
        "unknown sampler 'torch-multinomia'; did you mean 'torch-multinomial'?",
    ),
    "a name like none": (
        ["--sampler", "zzz"],
        "unknown sampler 'zzz'; `pp3 samplers` lists them; your own is module:object",
    ),
    "a file without an object": (
        ["--sampler", "mine.py"],
        "unknown sampler 'mine.py'; name the object in it too, as in mine.py:MySampler",
    ),
    "a file that is not there": (["--sampler", "yours.py:Mine"], "sampler yours.py:Mine: yours.py: no such file"),
    "an alpha of 0": (
        ["--campaign", "c.toml", "alpha = 0"],
        "c.toml: alpha = 0.0; it must be at least 1e-30 and below 1",
    ),
    "an alpha of 1": (
        ["--campaign", "c.toml", "alpha = 1.0"],
        "c.toml: alpha = 1.0; it must be at least 1e-30 and below 1",
    ),
    "an alpha that is none": (
        ["--campaign", "c.toml", "alpha = nan"],
        "c.toml: alpha = nan; it must be at least 1e-30",
    ),
    "a power below alpha": (
        ["--campaign", "c.toml", "power = 1e-9"],
        "c.toml: power = 1e-09; it must be between alpha (1e-05) and 1",
    ),
    "a pool that is too small": (["--campaign", "c.toml", "pool = 5"], "c.toml: pool = 5; it must be at least 20"),
    "a detect of 1": (["--campaign", "c.toml", "detect = 1.0"], "c.toml: detect = 1.0; it must be 0 (no promise) or"),
    "a negative detect": (
        ["--sampler", "mine.py:Mine", "--detect", "-0.1"],
        "pp3 qualify: detect = -0.1; it must be 0",
    ),
    "no requests": (
        ["--sampler", "mine.py:Mine", "--requests", "0"],
        "pp3 qualify: requests = 0; it must be from 1 to",
    ),
    "too many requests": (
        ["--sampler", "mine.py:Mine", "--requests", str(2**41)],
        f"pp3 qualify: requests = {2**41}; it must be from",
    ),
    "a target twice": (
        ["--sampler", "mine.py:Mine", "--target", "a", "--target", "a"],
        "pp3 qualify: targets = ['a', 'a']; it must be distinct",
    ),
    "a counter below 0": (["--sampler", "mine.py:Mine", "--counter", "-1"], "--counter -1: it must be from 0 to"),
    "a key that is almost one": (
        ["--campaign", "c.toml", "request = 5"],
        "c.toml: unknown key 'request'; did you mean 'requests'?",
    ),
    "a key like none": (
        ["--campaign", "c.toml", "zzz = 5"],
        "c.toml: unknown key 'zzz'; keys are sampler, targets, requests, alpha",
    ),
    "a value of another type": (
        ["--campaign", "c.toml", "requests = 'many'"],
        "c.toml: requests = 'many': Expected `int`, got `str`",
    ),
    "a sampler of another type": (
        ["--campaign", "c.toml", "sampler = 3"],
        "c.toml: sampler = 3: Expected `str`, got `int`",
    ),
    "a GPU that is demanded on the CPU": (
        ["--sampler", "mine.py:Mine", "--require-gpu"],
        "--device cpu and --require-gpu contradict each other; drop one",
    ),
    "no processes": (["--sampler", "mine.py:Mine", "--jobs", "0"], "--jobs 0: it must be from 1 to 64"),
    "processes for our own": (["--jobs", "2"], "--jobs is for other samplers; pp3-top32 has its campaign file"),
    "a target for our own": (
        ["--target", "whole"],
        "--target is for other samplers; pp3-top32 has its campaign file: its key `targets` chooses",
    ),
    "a key as an option": (["--alpha", "0.05"], "--alpha is no option: alpha is a key of a campaign file"),
    "a campaign file as an argument": (
        ["c.toml"],
        "Got unexpected extra argument (c.toml); a campaign file is given as --campaign FILE",
    ),
    "no TOML": (["--campaign", "c.toml", "alpha = "], "c.toml: not TOML: "),
    "no file": (["--campaign", "d.toml"], "d.toml: No such file or directory; give the path of a campaign file"),
    "a campaign's sampler that is not there": (
        ["--campaign", "c.toml", "sampler = 'yours.py:Mine'"],
        "sampler yours.py:Mine: yours.py: no such file",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), AT_ONCE.values(), ids=AT_ONCE)
def test_what_is_refused_before_anything_runs(
    arguments: list[str], message: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is started, no counter is spent."""
    monkeypatch.setattr(parent, "run", lambda *_: pytest.fail("a process was started"))
    if len(arguments) == 3 and arguments[0] == "--campaign":
        *arguments, line = arguments
        sampler = "" if line.startswith("sampler") else "sampler = 'mine.py:Mine'\n"
        (here / "c.toml").write_text(f"{sampler}{line}\n")
    assert refused(arguments, capsys).startswith(message)


def test_an_output_in_use_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "used").mkdir()
    (here / "used" / "file").touch()
    said = refused(["--sampler", "mine.py:Mine", "--out", "used"], capsys, out=False)
    assert said == "--out used already holds 1 files; give a new or empty folder"


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("flashinfer-probs", "sampler flashinfer-probs: flashinfer is not installed"),
        ("transformers-speculative", "sampler transformers-speculative: transformers is not installed"),
    ],
)
def test_what_is_missing_is_69(
    sampler: str, message: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.util import find_spec

    absent = ("flashinfer", "transformers")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *_: None if name in absent else find_spec(name))
    assert refused(["--sampler", sampler], capsys, Exit.UNAVAILABLE) == message


def test_a_gpu_that_is_not_there_is_69(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pp3.harness.backends.cuda_available", lambda: False)
    from importlib.util import find_spec

    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *_: find_spec("json" if name == "flashinfer" else name)
    )
    assert refused(["--sampler", "flashinfer-probs"], capsys, Exit.UNAVAILABLE).endswith("needs a CUDA GPU")


def test_a_file_beside_the_campaign_is_found(here: Path) -> None:
    """From wherever the command is run."""
    (here / "sub").mkdir()
    campaign = here / "sub" / "c.toml"
    for said, expected in (
        ("mine.py:Mine", f"{here / 'sub' / 'mine.py'}:Mine"),
        (f"{here / 'mine.py'}:Mine", f"{here / 'mine.py'}:Mine"),
        ("package.module:object", "package.module:object"),
        ("torch-multinomial", "torch-multinomial"),
    ):
        campaign.write_text(f"sampler = {said!r}\n")
        assert campaign_file.load(campaign).sampler == expected
        assert campaign_file.chosen(campaign, said, (), None, None, None)[0].sampler == expected


def test_the_command_line_overrules_the_file(here: Path) -> None:
    path = here / "c.toml"
    path.write_text("sampler = 'mine.py:Mine'\nrequests = 5000\ndetect = 0.2\ntargets = ['rows-of-12']\nalpha = 1e-6\n")
    spec, given = campaign_file.chosen(path, "mine.py:Mine", (), None, None, None)
    assert (spec.requests, spec.detect, spec.targets, spec.alpha, given) == (5000, 0.2, ["rows-of-12"], 1e-6, True)
    spec, given = campaign_file.chosen(path, "torch-multinomial", ("rows-of-63",), 7000, 0.1, 0.02)
    assert (spec.sampler, spec.requests, spec.detect, spec.targets) == ("torch-multinomial", 7000, 0.1, ["rows-of-63"])
    path.write_text("alpha = 1e-6\n")
    spec, given = campaign_file.chosen(path, "torch-multinomial", (), None, None, None)
    assert (spec.sampler, spec.requests, given) == ("torch-multinomial", QUICK, False)


def test_json_is_one_object(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the exit code is that of the verdict."""
    options = [
        "--target",
        "rows-of-12",
        "--requests",
        "5000",
        "--device",
        "cpu",
        "--counter",
        "3",
        "--out",
        "out",
        "--json",
    ]
    assert cli.run(["qualify", "--sampler", "mine.py:mine", *options]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["counter"], said["requests"], said["reasons"]) == ("PASS", 3, 20_000, [])
    assert "(chosen from 10)" in said["sentence"]


def test_a_promise_raises_the_requests_by_itself(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By option and by file, as long as no number is given."""
    (here / "c.toml").write_text("sampler = 'mine.py:Mine'\ntargets = ['rows-of-12']\ndetect = 0.025\n")
    options = ["--device", "cpu", "--counter", "3", "--json"]
    assert cli.run(["qualify", "--campaign", "c.toml", *options, "--out", "one"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert said["resolution"] <= 0.025
    assert said["requests"] > 4 * QUICK
    refused(["--campaign", "c.toml", "--requests", "20000"], capsys)
