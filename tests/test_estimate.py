"""The estimate: exact tokens of a round, bytes of the wire, and inputs that say where they are from, or are refused."""

import json
import re
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.estimate import law, wire
from pp3.harness.estimate.command import NOT_MEASURED
from pp3.harness.evidence import provenance, receipt
from pp3.harness.probe.plan import Mode
from pp3.kernels.reference import ONE, allocate
from pp3.targets import NAMES, build


@pytest.fixture(scope="module")
def path(probed: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A receipt of the full probe."""
    return receipt.write(probed.statement(Mode.FULL), tmp_path_factory.mktemp("estimate"))


def estimate(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """What --json prints."""
    assert cli.run(["estimate", "--receipt", str(path), "--json", *options]) == Exit.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("requests", "depth", "reply"), [(1, 5, 1416), (4, 5, 5412), (1, 4, 1152), (4, 4, 4356)])
def test_the_bytes_of_a_reply_are_those_of_the_semantics(requests: int, depth: int, reply: int) -> None:
    """docs/semantics.md, section 4."""
    assert wire.sampled(requests, depth).reply == reply


def test_the_bytes_of_the_vectors_are_counted() -> None:
    """Every frame that the known answers accept has the length that is counted, both ways and in both modes."""
    known = json.loads((Path(__file__).parent / "vectors" / "wire.json").read_text("utf-8"))

    def length(frame: str) -> int:
        return len(bytes.fromhex(frame))

    for case in known["valid"]:
        decoded = case["decode"]["tokens"]
        assert length(case["frame"]) == wire.sampled(len(decoded), len(decoded[0])).reply
    step, mode0 = known["step"], known["mode0"]
    assert length(step["frame"]) == wire.sampled(len(step["rows"]), step["depth"]).step
    tokens = mode0["decode"]["tokens"]
    plain = wire.unsampled(len(tokens), len(tokens[0]))
    assert (length(mode0["step"]), length(mode0["frame"])) == (plain.step, plain.reply)
    with pytest.raises(CampaignError, match="1 to 4 requests"):
        wire.sampled(5, 5)


def test_tokens_of_a_round_by_enumeration() -> None:
    """Every draft of two positions of the smallest target, by hand: kept with min(1, P/Q), or replaced and ended."""
    target, depth = build("disjoint"), 2
    assert law.sampled(target, depth) == 1
    tickets = build("context").proposal_weights()
    target = build("context")
    total, reached = Fraction(0), {0: Fraction(1)}
    for position in range(depth + 1):
        total += sum(reached.values())
        following: dict[int, Fraction] = {}
        for context, mass in reached.items():
            row = target.row_of[position, context]
            for token in range(target.vocab):
                kept = Fraction(min(int(target.weights[row, token]), int(tickets[row, token])), ONE)
                if kept:
                    after = int(target.context_of[token])
                    following[after] = following.get(after, Fraction(0)) + mass * kept
        reached = following
    assert law.sampled(target, depth) == total


def test_a_point_mass_is_kept_with_its_target_s_share() -> None:
    """One position: the first token's P; and never more than with the law carried."""
    target = build("context")
    row = int(target.row_of[0, 0])
    first = int(allocate(target.draft_logits[row : row + 1]).first[0])
    assert law.point_mass(target, 1) == 1 + Fraction(int(target.weights[row, first]), ONE)
    for name, depth in product(NAMES, (4, 5)):
        assert law.point_mass(build(name), depth) <= law.sampled(build(name), depth) <= depth + 1


def test_an_assumed_acceptance_is_a_geometric_sum() -> None:
    """1 + a + a^2."""
    assert law.assumed(Fraction(1, 2), 2) == Fraction(7, 4)
    assert law.assumed(Fraction(1), 5) == 6


def test_every_input_says_where_it_is_from(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Times by the receipt's digest, laws by theirs, and what is assumed by its option."""
    found = estimate(path, capsys, "--round-ms", "20", "--acceptance", "0.7", "--target", "context")
    by_name = {one["name"]: one for one in found["inputs"]}
    digest = path.stem.rpartition("-")[2]
    for name in ("selector, median", "verifier, 95th percentile"):
        assert by_name[name]["provenance"] == "measured"
        assert f"sha256 {digest}" in by_name[name]["source"]
    assert by_name["law of context"]["provenance"] == "exact"
    assert build("context").digest() in by_name["law of context"]["source"]
    assumed = {name for name, one in by_name.items() if one["provenance"] == "assumed"}
    assert assumed == {"a round without the sampled path", "acceptance of a draft"}
    assert found["notMeasured"] == list(NOT_MEASURED)
    assert "No speedup was measured and none is claimed." in found["sentence"]


def test_times_of_other_sources_say_so(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receipt verifies wherever it is read; its kernels may not be those of this tree."""
    assert not any("other sources" in one["source"] for one in estimate(path, capsys)["inputs"])
    monkeypatch.setattr(provenance, "stale", lambda *_: ["pp3/kernels/proposal.py"])
    named = [one["name"] for one in estimate(path, capsys)["inputs"] if "other sources" in one["source"]]
    assert len(named) == 4


def test_what_is_added_is_the_sum_of_what_was_measured(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Medians with medians; a link adds its bits; the round breaks even where both rates meet."""
    plain = estimate(path, capsys, "--round-ms", "20", "--target", "context")
    times = {one["name"]: Fraction(one["value"]) for one in plain["inputs"] if one["unit"] == "us"}
    assert Fraction(plain["addedUs"]) == times["selector, median"] + times["verifier, median"]
    more = wire.sampled(1, 5).total - wire.unsampled(1, 5).total
    assert plain["addedBytes"] == more
    linked = estimate(path, capsys, "--link-gbit", "10")
    assert Fraction(linked["addedUs"]) - Fraction(plain["addedUs"]) == Fraction(more * 8, 10_000)
    [row] = plain["rows"]
    even = Fraction(row["rounds"][0]["breakEvenTokens"])
    base = Fraction(row["pointMassTokens"])
    assert even / (20 + Fraction(plain["addedUs"]) / 1000) == base / 20


REFUSED: dict[str, tuple[list[str], Exit, str]] = {
    "a size that was not timed": (["--vocab", "1000"], Exit.USAGE, "was not measured"),
    "a batch beyond a STEP": (["--batch", "5"], Exit.USAGE, "1 to 4 requests"),
    "another depth": (["--depth", "3"], Exit.USAGE, "it must be 4 or 5"),
    "no number": (["--round-ms", "soon"], Exit.USAGE, "give a number"),
    "no time at all": (["--round-ms", "0"], Exit.USAGE, "above 0"),
    "a chance above 1": (["--acceptance", "1.5"], Exit.USAGE, "no more than 1"),
    "an unknown target": (["--target", "llama"], Exit.USAGE, "choose from"),
}


@pytest.mark.parametrize(("options", "code", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_estimated_is_refused(
    options: list[str], code: Exit, said: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the value, and nothing on stdout."""
    assert cli.run(["estimate", "--receipt", str(path), *options]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


def test_an_input_that_is_missing_or_untrue_is_refused(
    path: Path, probed: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No receipt, another kind, one that was altered, a red one, and two that hold the same case."""
    assert cli.run(["estimate"]) == Exit.USAGE
    assert cli.run(["estimate", "--receipt", str(tmp_path / "nowhere.json")]) == Exit.USAGE
    other = min((Path(__file__).parents[1] / "receipts" / "evidence" / "oracle").glob("*.json"))
    assert cli.run(["estimate", "--receipt", str(other)]) == Exit.USAGE
    assert "of kind oracle" in capsys.readouterr().err
    altered = tmp_path / path.name
    altered.write_bytes(path.read_bytes().replace(b'"rounds":10', b'"rounds":20', 1))
    assert cli.run(["estimate", "--receipt", str(altered)]) == Exit.NEGATIVE
    seen = probed.seen(Mode.FULL)
    seen["bits"][0] |= {"mismatches": 1, "first": "row 0"}
    red = receipt.write(probed.statement(Mode.FULL, bits=seen["bits"], cases=[]), tmp_path)
    assert cli.run(["estimate", "--receipt", str(red)]) == Exit.NEGATIVE
    assert "it holds no times" in capsys.readouterr().err
    quick = receipt.write(probed.statement(), tmp_path)
    assert cli.run(["estimate", "--receipt", str(path), "--receipt", str(quick)]) == Exit.USAGE
    assert "give the one that is meant" in capsys.readouterr().err


def test_the_text_fits_eighty_columns_and_says_assumed(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """But for the sentence, which is one line for scripts."""
    assert cli.run(["estimate", "--receipt", str(path), "--round-ms", "5", "--round-ms", "20"]) == Exit.OK
    sentence, *lines = capsys.readouterr().out.splitlines()
    assert sentence.startswith("ESTIMATE: the sampled path adds 62 us a round")
    assert max(map(len, lines)) <= 80
    assert sum(bool(re.search(r"\bassumed\b", line)) for line in lines) >= 2
    for name in NAMES:
        assert any(line.startswith(name) for line in lines)
