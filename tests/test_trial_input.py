"""Bad input, by file, by option and from Python: one line that names the value and the way out, and its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from pp3 import Description, qualify
from pp3.harness import cli
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.samplers.contract import Kind
from pp3.harness.trial import campaign_file, parent, process
from pp3.harness.trial.api import plan
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import LARGEST_REQUESTS, QUICK, TrialSpec, make, with_enough
from pp3.harness.trial.problems import names
from pp3.harness.verdict import Verdict

WHO = Description(name="mine", kind="verifier", target_carrier="probs", greedy=True)
PLAIN = Description(name="mine", kind="plain", filters=("temperature",))
MINE = """
from pp3 import Description
from pp3.harness.samplers.torch_controls import Multinomial

class Mine(Multinomial):
    pass

mine = Mine()
number = 5

class Nobody:
    def describe(self):
        return "me"
    def run(self, batch):
        return 1

class Raises:
    def __init__(self):
        raise OSError("no weights")

class Misspelt(Multinomial):
    def describe(self):
        return Description(name="x", kind="planar")

class Tickets(Multinomial):
    def describe(self):
        return Description(name="x", kind="verifier", target_carrier="tickets")

class Nothing(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", max_vocab=3)

class Joint(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", order="joint", ties="value-only", top_p_ties="lower-id")

class Order(Multinomial):
    def describe(self):
        return Description(name="x", kind="plain", order="sideways")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], code: Exit = Exit.USAGE, out: bool = True) -> str:
    """The one line of an error; nothing is written."""
    folder = Path("out")
    assert cli.run(["qualify", "--device", "cpu", *arguments, *(["--out", str(folder)] if out else [])]) == code
    streams = capsys.readouterr()
    assert streams.out == ""
    (line,) = streams.err.splitlines()
    assert line.startswith("pp3: error: ")
    assert not folder.exists() or list(folder.iterdir()) == []
    return line.removeprefix("pp3: error: ")


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


IN_ITS_PROCESS: dict[str, tuple[str, list[str], str]] = {
    "no such object": ("mine.py:Min", [], "sampler mine.py:Min: mine.py has no 'Min'; did you mean 'Mine'?"),
    "an object that cannot be made": (
        "mine.py:Raises",
        [],
        "sampler mine.py:Raises: making it raised OSError: no weights",
    ),
    "an object that is none": (
        "mine.py:number",
        [],
        "int is no sampler: it must be an object with describe() and run(batch)",
    ),
    "a description that is none": ("mine.py:Nobody", [], "Nobody.describe() gave str; want a pp3.Description"),
    "a description that cannot be": (
        "mine.py:Misspelt",
        [],
        "Misspelt.describe() raised ValueError: kind = 'planar'; choose from plain,",
    ),
    "a carrier that is none here": (
        "mine.py:Tickets",
        [],
        "sampler mine.py:Tickets: x declares target_carrier = 'tickets'; a target travels as",
    ),
    "no vocabulary": ("mine.py:Nothing", [], "sampler mine.py:Nothing: no target applies to x: rows-of-"),
    "rules that contradict each other": (
        "mine.py:Joint",
        [],
        "sampler mine.py:Joint: x declares what cannot be: ties value-only and lower-id",
    ),
    "an order that there is not": (
        "mine.py:Order",
        [],
        "sampler mine.py:Order: x declares what cannot be: 'sideways' is not a valid Order",
    ),
    "a module that there is not": (
        "no_such_module:x",
        [],
        "sampler no_such_module:x: importing no_such_module raised ModuleNotFoundError: No",
    ),
    "a module that exits": ("quits.py:x", [], "sampler quits.py:x: importing quits.py raised SystemExit: 3"),
    "a module that is none": ("broken.py:x", [], "sampler broken.py:x: importing broken.py raised SyntaxError: "),
    "a target that is almost one": (
        "mine.py:Mine",
        ["--target", "rows-of-13"],
        "sampler mine.py:Mine: unknown target 'rows-of-13'; did you mean 'rows-of-63'?",
    ),
    "a target of another kind": (
        "mine.py:Mine",
        ["--target", "near"],
        "sampler mine.py:Mine: unknown target 'near'; a plain has rows-of-",
    ),
    "a target that does not apply": (
        "mine.py:Mine",
        ["--target", "rows-of-6"],
        "sampler mine.py:Mine: no target applies to torch-multinomial: rows-of-6: no case",
    ),
    "a promise that cannot be kept": (
        "mine.py:Mine",
        ["--target", "rows-of-12", "--requests", "1000", "--detect", "0.01"],
        "sampler mine.py:Mine: detect = 0.01 needs 2",
    ),
}


def test_what_is_refused_in_its_process(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same lines, in this process; the real one is tried below."""
    (here / "quits.py").write_text("import sys\nsys.exit(3)\n")
    (here / "broken.py").write_text("def\n")
    monkeypatch.setattr(process, "run", in_this_process)
    wrong = []
    for name, (sampler, options, message) in IN_ITS_PROCESS.items():
        said = refused(["--sampler", sampler, *options], capsys)
        if not said.startswith(message):
            wrong.append((name, said))
    assert wrong == []


def in_this_process(order: Any, *_: Any) -> Any:
    """What the child would refuse, without its start."""
    from pp3.harness.errors import PP3Error
    from pp3.harness.samplers import registry
    from pp3.harness.trial.api import describe
    from pp3.harness.trial.order import Refused

    try:
        who = describe(registry.load(registry.find(order.sampler), None))
        plan(TrialSpec(**order.spec), who, order.where, order.given)
    except PP3Error as error:
        return process.Heard(refused=Refused(str(error), int(error.exit_code)))
    raise AssertionError("not refused")


def test_a_refusal_comes_from_the_process(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The real one."""
    assert refused(["--sampler", "mine.py:Raises"], capsys).startswith(
        IN_ITS_PROCESS["an object that cannot be made"][2]
    )


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


FROM_PYTHON: dict[str, tuple[dict[str, Any], str]] = {
    "another profile": ({"profile": "plain"}, "profile 'plain': mine says it is 'verifier'; one of them is wrong"),
    "a target that is almost one": ({"targets": ["neer"]}, "qualify: unknown target 'neer'; did you mean 'near'?"),
    "a target like none": ({"targets": "zzz"}, "qualify: unknown target 'zzz'; a verifier has near, far, equal"),
    "no requests": ({"requests": 0}, "qualify: requests = 0; it must be from 1 to"),
    "requests that are none": ({"requests": "many"}, "qualify: Expected `int`, got `str` - at `$.requests`"),
    "half a request": ({"requests": 0.5}, "qualify: Expected `int`, got `float`"),
    "targets that are none": ({"targets": [3]}, "qualify: Expected `str`, got `int`"),
    "an alpha of 0": ({"alpha": 0.0}, "qualify: alpha = 0.0; it must be at least 1e-30 and below 1"),
    "an alpha above 1": ({"alpha": 2.0}, "qualify: alpha = 2.0; it must be"),
    "a counter below 0": ({"counter": -1}, "--counter -1: it must be from 0"),
    "a promise that cannot be kept": ({"requests": 100, "detect": 0.01}, "qualify: detect = 0.01 needs "),
    "a promise that nobody can keep": (
        {"detect": 1e-9},
        "qualify: detect = 1e-09 needs more than 1,099,511,627,776 requests",
    ),
}


@pytest.mark.parametrize(("options", "message"), FROM_PYTHON.values(), ids=FROM_PYTHON)
def test_what_is_refused_in_python(options: dict[str, Any], message: str) -> None:
    class Mine:
        def describe(self) -> Description:
            return WHO

        def run(self, batch: Any) -> None:
            pytest.fail("it was run")

    with pytest.raises(CampaignError) as error:
        qualify(Mine(), device="cpu", **options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "who",
    [WHO, PLAIN, Description(name="b", kind="verifier", rule="block", target_carrier="probs")],
    ids=["verifier", "plain", "block"],
)
@pytest.mark.parametrize("detect", [0.3, 0.05, 0.01, 0.002])
def test_a_promise_takes_as_many_requests_as_it_needs(who: Description, detect: float) -> None:
    """And hardly more; the number that is named when too few are given is one that works."""
    start = make(TrialSpec(detect=detect, requests=50), who, "test")
    enough = with_enough(start, "test")
    assert enough.resolution <= detect
    fewer = make(TrialSpec(detect=detect, requests=int(enough.spec.requests * 0.75)), who, "test")
    assert (
        fewer.resolution > detect or any(check.required and not check.df for check in fewer.checks) or enough is start
    )
    with pytest.raises(CampaignError, match=f"needs {enough.spec.requests:,} requests of each law, and requests = 50"):
        plan(start.spec, who, "test", given=True)
    works = TrialSpec(detect=detect, requests=enough.spec.requests)
    assert plan(works, who, "test", given=True).spec.requests == enough.spec.requests


def test_a_promise_of_a_deterministic_law_is_kept() -> None:
    """Where every other outcome is impossible, one in a few thousand shows."""
    trial = make(TrialSpec(detect=0.01, targets=["greedy"]), WHO, "test")
    assert with_enough(trial, "test") is trial
    assert 0 < trial.resolution < 0.001


def test_the_largest_number_is_a_number() -> None:
    assert make(TrialSpec(requests=LARGEST_REQUESTS), PLAIN, "test").requests > LARGEST_REQUESTS


@pytest.mark.parametrize("kind", list(Kind))
def test_every_target_is_named_once(kind: Kind) -> None:
    assert len(set(names(kind))) == len(names(kind)) >= 9


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


def test_a_promise_is_not_raised_beyond_the_most_that_is_run() -> None:
    """What cannot be kept then is said in the verdict; without a limit it is kept."""
    promise = TrialSpec(requests=500, detect=0.01)
    most = plan(promise, PLAIN, "test", given=False, most=2_000)
    assert (most.spec.requests, most.spec.detect) == (2_000, 0.01)
    judged = conclude(most, Measured(), "a CPU")
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert f"a total variation of {most.resolution:.4f} is seen, 0.01 was promised" in judged.reasons
    free = plan(promise, PLAIN, "test", given=False)
    assert free.resolution <= 0.01
    assert plan(promise, PLAIN, "test", given=False, most=free.spec.requests).plan_sha256 == free.plan_sha256
