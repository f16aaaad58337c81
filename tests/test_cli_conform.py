"""`pp3 conform`: the committed vectors pass, an altered expectation is named, and unusable files are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "tests" / "vectors"


def test_conform_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """The files of the semantics, on the reference."""
    files = [str(VECTORS / name) for name in ("propose.json", "verify.json")]
    assert cli.run(["conform", *files]) == Exit.OK
    assert capsys.readouterr().out.splitlines() == [
        "propose.json: 78 of 78 passed on reference",
        "verify.json: 90 of 90 passed on reference",
    ]


def test_conform_holds_the_wire_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A file of frames beside files of a backend, whatever the backend."""
    assert cli.run(["conform", str(VECTORS / "wire.json"), str(VECTORS / "verify.json")]) == Exit.OK
    assert capsys.readouterr().out.splitlines()[0] == "wire.json: 117 of 117 passed on NumPy"


def test_conform_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    """With on what it passed."""
    assert cli.run(["conform", str(VECTORS / "verify.json"), "--json"]) == Exit.OK
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["total"]) == (90, 90)
    assert found["identity"]["backend"] == "reference"


ALTERED: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "a token": ("propose.json", "token", lambda old: old + 1),
    "a status": ("propose.json", "status", lambda old: "failed"),
    "an id": ("propose.json", "ids", lambda old: [old[1], old[0], *old[2:]]),
    "a ticket": ("propose.json", "tickets", lambda old: [old[0] - 1, *old[1:]]),
    "a length": ("verify.json", "num_sampled", lambda old: old + 1),
    "an emitted token": ("verify.json", "tokens", lambda old: [*old[:-1], old[-1] + 1]),
}


@pytest.mark.parametrize(("file", "field", "alter"), ALTERED.values(), ids=ALTERED)
def test_an_altered_expectation_is_named(
    file: str, field: str, alter: Callable[[Any], Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 with case, field, what was expected and what came."""
    cases = json.loads((VECTORS / file).read_bytes())
    case = next(case for case in cases if case["expect"]["status"] == "ok" and case["sampled"])
    got = case["expect"][field]
    case["expect"][field] = alter(got)
    (tmp_path / file).write_text(json.dumps(cases))
    assert cli.run(["conform", str(tmp_path / file)]) == Exit.NEGATIVE
    passed, difference = capsys.readouterr().out.splitlines()
    assert passed == f"{file}: {len(cases) - 1} of {len(cases)} passed on reference"
    assert difference == (
        f"  first difference: case {case['name']}, {field}: expected {case['expect'][field]}, got {got}"
    )


UNUSABLE = {
    "a wire file without its parts": (b'{"valid": []}', "missing required field"),
    "no JSON": (b"requests = 5", "malformed"),
    "truncated JSON": (b"[{", "truncated"),
    "an empty file": (b"", "truncated"),
    "an object": (b'{"cases":[]}', "Expected `array`"),
    "a case without its fields": (b'[{"name":"x"}]', "missing required field"),
    "a case of another type": (b"[5]", "Expected `object`"),
}


@pytest.mark.parametrize(("content", "said"), UNUSABLE.values(), ids=UNUSABLE)
def test_unusable_vectors_are_exit_2(
    content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with the file and the reason."""
    path = tmp_path / "vectors.json"
    path.write_bytes(content)
    assert cli.run(["conform", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith(f"pp3: error: {path}: ")
    assert said in printed.err


def odd_case(file: str, change: Callable[[dict[str, Any]], object]) -> bytes:
    """A file of one case that was changed."""
    case = min(json.loads((VECTORS / file).read_bytes()), key=lambda case: len(json.dumps(case)))
    change(case)
    return json.dumps([case]).encode()


ODD: dict[str, bytes] = {
    "logits of another vocabulary": odd_case("propose.json", lambda case: case.update(vocab=64)),
    "logits that are no bytes": odd_case("propose.json", lambda case: case.update(logits="zz")),
    "a session of one byte": odd_case("propose.json", lambda case: case.update(session="00")),
    "a seed that is no number": odd_case("propose.json", lambda case: case.update(seed="x")),
    "a round beyond 64 bits": odd_case("propose.json", lambda case: case.update(round="1" * 17)),
    "an unknown type of logits": odd_case("propose.json", lambda case: case.update(dtype="fp8")),
    "a draft too few": odd_case("verify.json", lambda case: case["drafts"].pop()),
    "a row of ids too few": odd_case("verify.json", lambda case: case["ids"].pop()),
    "a row of tickets too few": odd_case("verify.json", lambda case: case["tickets"].pop()),
    "no tickets": odd_case("verify.json", lambda case: case.update(tickets=[])),
    "a probability too few": odd_case("verify.json", lambda case: case.update(target_fp32=case["target_fp32"][8:])),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_an_odd_case_is_exit_2(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Well-formed JSON with a value that fits nothing is bad input, not a bug of ours."""
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    assert cli.run(["conform", str(path)]) == Exit.USAGE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"pp3: error: {path}: ")


def test_a_bad_file_is_refused_before_a_good_one_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is printed of the good one."""
    (tmp_path / "bad.json").write_text("[")
    assert cli.run(["conform", str(VECTORS / "verify.json"), str(tmp_path / "bad.json")]) == Exit.USAGE
    assert capsys.readouterr().out == ""


def test_no_cases_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing ran, which is not a pass."""
    (tmp_path / "none.json").write_text("[]")
    assert cli.run(["conform", str(tmp_path / "none.json")]) == Exit.NOTHING_RAN
    assert "0 of 0 passed" in capsys.readouterr().out
