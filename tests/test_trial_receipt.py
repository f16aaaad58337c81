"""Receipts of trials: each verifies, and every tampering, sealed anew, is refused at its own step."""

import copy
from datetime import UTC, datetime
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import torch
from altered import Change, Statement, both, edit, reseal_plan, sealed
from one_thread import one_thread
from trial_tampering import TAMPERED, TOKEN, add, move, rejudge

from pp3 import Batch, Description, Emission
from pp3.harness import canonical, cli
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.evidence import provenance, receipt, shapes
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.report.render import page
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run

STEPS = ["bytes", "name", "shape", "plan", "laws", "recompute counts", "recompute statistics"]
STEPS += ["error budget", "verdict", "non-claims"]
REVIEWED = ["ledger", "signature", "sources"]  # skipped where nothing is given
COUNTER = 7


class Wrong(StandardRejection):
    """Replaces a rejected draft by the target instead of the residual."""

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        blank = torch.zeros_like(batch.draft_probs)
        judged = super().run(batch)
        rows = torch.arange(len(batch))
        last = (judged.num_sampled - 1).long()
        stopped = (last < batch.depth) & (batch.draft_ids[rows, last.clamp(max=batch.depth - 1)] >= 0)
        other = torch.multinomial(batch.target_probs[rows, last], 1, generator=batch.generator)[:, 0]
        tokens = judged.tokens.clone()
        tokens[rows, last] = torch.where(stopped, other, tokens[rows, last])
        return Emission(tokens=tokens + 0 * blank[:, :1, 0].long(), num_sampled=judged.num_sampled)


class Breaks(StandardRejection):
    """Raises on one target, emits an illegal token on another, and is right on a third."""

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        judged = super().run(batch)
        if batch.target.name == "near":
            raise RuntimeError("near")
        if batch.target.name == "far":
            judged.tokens[3, 0] = -1
        return judged


TARGETS = {
    "passes": ["near", "far", "context", "mixed", "peaked", "shared-noise", "whole", "void", "greedy"],
    "fails": ["far", "whole", "void"],
    "breaks": ["near", "far", "equal"],
    "plain": ["rows-of-12", "rows-of-8"],
    "small": ["shared-noise"],
}
SAMPLERS: dict[str, Any] = {"passes": StandardRejection(), "fails": Wrong(), "breaks": Breaks(), "plain": Multinomial()}

SAMPLERS["small"] = Wrong()


@pytest.fixture(scope="module")
def statements() -> dict[str, Statement]:
    """One receipt of each kind of verdict, as `pp3 qualify` builds it."""
    found = {}
    for name, sampler in SAMPLERS.items():
        who = sampler.describe()
        trial = make(TrialSpec(sampler=name, targets=TARGETS[name]), who, "test")
        with one_thread():
            measured = run(trial, sampler, Seed.of(trial.plan_sha256, COUNTER), "cpu", lambda *_: None)
        one = Found(trial=trial, device=identity("cpu"), measured=measured, sources=Sources([["a.py", "0" * 64]], {}))
        found[name] = trial_receipt.build(one, COUNTER, "given", datetime.now(UTC), trial_receipt.judge(one))
    return found


SOURCES = cache(provenance.sources)


@pytest.fixture(autouse=True)
def _sources_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They do not change meanwhile, and every refusal reads them all."""
    monkeypatch.setattr(provenance, "sources", SOURCES)


@pytest.fixture
def statement(statements: dict[str, Statement]) -> Statement:
    """A fresh copy of the one that passes."""
    return copy.deepcopy(statements["passes"])


def test_each_verifies(statements: dict[str, Statement]) -> None:
    verdicts = {"passes": "PASS", "fails": "FAIL", "breaks": "INVALID", "plain": "PASS", "small": "FAIL"}
    for name, verdict in verdicts.items():
        found = sealed(statements[name])
        assert found.ok, found.sentence
        assert found.verdict == statements[name]["predicate"]["verdict"] == verdict
        assert [step.name for step in found.steps] == [*STEPS, *REVIEWED]
        assert {step.outcome for step in found.steps[len(STEPS) :]} == {"skip"}


def test_each_has_a_page(statements: dict[str, Statement]) -> None:
    """With its sentence, every reason and every target on it; the same bytes each time."""
    for name, statement in statements.items():
        content = canonical.encode(statement)
        html = page(content, canonical.decode(content))
        assert name != "small" or html == page(content, canonical.decode(content))
        for target in statement["predicate"]["plan"]["targets"]:
            assert f"<td><bdi>{target['name']}</bdi></td>" in html
        for said in ("does not emit", "broke the sampler contract", "no evidence against"):
            assert (said in html) == (said in statement["predicate"]["sentence"])
        shown = unescape(html)
        assert all(reason in shown for reason in statement["predicate"]["reasons"])


def test_the_page_of_a_break_names_it(statements: dict[str, Statement]) -> None:
    content = canonical.encode(statements["breaks"])
    html = page(content, canonical.decode(content))
    assert "raised RuntimeError at test_trial_receipt.py" in html
    assert "8 tokens or drafts outside the vocabulary" in html


def test_a_receipt_holds_all_that_was_found(statements: dict[str, Statement], tmp_path: Path) -> None:
    """Written and read back: the integers, the declarations, the sources of sampler and harness."""
    path = receipt.write(statements["fails"], tmp_path)
    _, statement = receipt.read(path)
    p = statement["predicate"]
    assert statement["predicate"] == canonical.decode(canonical.encode(statements["fails"]))["predicate"]
    assert p["plan"]["declared"]["draft_carrier"] == "probs"
    assert p["sampler"]["files"] == [["a.py", "0" * 64]]
    assert {f"pp3/harness/trial/{m}.py" for m in ("run", "guard", "judge", "seen")} <= {
        s["name"] for s in statement["subject"]
    }
    assert p["strays"]
    assert cli.run(["verify", str(path)]) == Exit.OK
    assert cli.run(["verify", str(path), "--require-verdict", "PASS"]) == Exit.NEGATIVE


@pytest.mark.parametrize(("change", "step"), TAMPERED.values(), ids=TAMPERED)
def test_tampering_is_refused_at_its_step(change: Change, step: str, statement: Statement) -> None:
    change(statement)
    found = sealed(statement)
    assert not found.ok
    assert found.steps[-1].outcome == "FAIL"
    assert (found.steps[-1].name, [one.name for one in found.steps[:-1]]) == (step, STEPS[: STEPS.index(step)]), found
    assert found.sentence.startswith(f"NOT VERIFIED at {step}: ")
    assert "\n" not in found.sentence


def test_every_step_has_a_tampering_that_it_catches() -> None:
    assert {step for _, step in TAMPERED.values()} == {*STEPS[2:]}


def test_what_follows_from_other_integers_verifies(statement: Statement) -> None:
    """Self-attested: who makes up the counts, and judges them rightly, is not found out here. It says so."""
    both(move(TOKEN, 300), rejudge)(statement)
    found = sealed(statement)
    assert found.ok
    assert "assurance=self-attested" in found.sentence


FAILING: dict[str, tuple[Change, str]] = {
    "its verdict": (edit("verdict", to="PASS"), "verdict"),
    "its reasons": (edit("reasons", to=lambda reasons: reasons[1:]), "verdict"),
    "its strays": (edit("strays", to=[]), "recompute counts"),
    "its strays and their counts": (
        both(
            edit("strays", to=[]),
            edit("cells", to=lambda cells: [c | {"counts": [*c["counts"][:-1], 0]} for c in cells]),
        ),
        "recompute counts",
    ),
    "a stray's number": (edit("strays", 0, "count", to=lambda n: n + 1), "recompute counts"),
    "a stray in two parts": (
        edit("strays", to=lambda s: [s[0] | {"count": 1}, s[0] | {"count": s[0]["count"] - 1}, *s[1:]]),
        "recompute counts",
    ),
    "a stray twice": (edit("strays", to=lambda strays: [*strays, strays[0]]), "recompute counts"),
    "another outcome of a stray": (edit("strays", 0, "outcome", to=lambda n: 19 - n), "recompute counts"),
    "the effect of a failure": (edit("effects", "far/depth-4/token/position-0", "tv", to="0"), "recompute statistics"),
}


@pytest.mark.parametrize(("change", "step"), FAILING.values(), ids=FAILING)
def test_a_failure_cannot_be_hidden(change: Change, step: str, statements: dict[str, Statement]) -> None:
    statement = copy.deepcopy(statements["fails"])
    change(statement)
    found = sealed(statement)
    assert (found.ok, found.steps[-1].name) == (False, step), found.sentence


BROKEN: dict[str, tuple[Change, str]] = {
    "its break": (edit("broken", to={}), "recompute counts"),
    "its breach": (edit("breaches", to={}), "recompute counts"),
    "both, with the counts filled up": (
        both(
            edit("broken", to={}),
            edit("breaches", to={}),
            edit("cells", to=lambda cells: [c for c in cells if "equal" in c["id"]]),
        ),
        "recompute counts",
    ),
    "more events than requests": (add("near/depth-4/length/none", 0, 20_001), "recompute counts"),
    "its reasons": (edit("reasons", to=[]), "verdict"),
    "another verdict": (edit("verdict", to="INCONCLUSIVE"), "verdict"),
}


@pytest.mark.parametrize(("change", "step"), BROKEN.values(), ids=BROKEN)
def test_a_break_cannot_be_hidden(change: Change, step: str, statements: dict[str, Statement]) -> None:
    statement = copy.deepcopy(statements["breaks"])
    change(statement)
    found = sealed(statement)
    assert (found.ok, found.steps[-1].name) == (False, step), found.sentence


ODD: list[Any] = [None, True, -1, 2**53 - 1, "", "x", "1e400", [], [[]], {}, {"a": 1}]


def test_no_value_of_any_kind_makes_verification_raise(statements: dict[str, Statement]) -> None:
    """Each value replaced by one of another kind and sealed anew: a verdict, never a crash."""
    statement: Statement = copy.deepcopy(statements["small"])
    statement["predicate"] |= {"breaches": {"shared-noise/failed": 1}, "broken": {"shared-noise": "raised"}}
    crashes = []

    def attempt(path: str, seal: bool) -> None:
        forged = copy.deepcopy(statement)
        try:
            if seal:
                reseal_plan(forged)
            sealed(forged)
        except Exception as error:
            crashes.append(f"{path}: {type(error).__name__}: {error}")

    def visit(place: Any, keys: list[Any], path: str, depth: int) -> None:
        for key in keys:
            where, old = f"{path}.{key}", place[key]
            for odd in ODD:
                place[key] = odd
                attempt(f"{where} = {odd!r}", seal=False)
                if where.startswith("predicate.plan."):
                    attempt(f"{where} = {odd!r}, the plan sealed anew", seal=True)
            place[key] = old
            if isinstance(old, dict) and depth < 3:
                visit(old, list(old)[:6] if key != "declared" else list(old), where, depth + 1)
            elif isinstance(old, list) and old and depth < 3:
                visit(old, [0], where, depth + 1)

    visit(statement["predicate"], list(statement["predicate"]), "predicate", 0)
    assert crashes == []


def test_another_kind_is_no_trial(statement: Statement) -> None:
    edit("kind", to="qualify")(statement)
    assert sealed(statement).steps[-1].name == "shape"
    with pytest.raises(ReceiptError):
        shapes.check_shape(statement)


def test_a_description_survives_a_receipt() -> None:
    """What is declared is rebuilt from the plan alone, whatever is declared."""
    who = Description(
        name="it",
        kind="verifier",
        version="2",
        target_carrier="logits",
        draft_carrier="one-hot",
        void="residual",
        greedy=True,
    )
    trial = make(TrialSpec(targets=["near", "peaked"]), who, "test")
    found = Found(trial=trial, device=identity("cpu"))
    statement = trial_receipt.build(found, 1, "next", datetime.now(UTC), trial_receipt.judge(found))
    again = trial_receipt.trial_of(canonical.decode(canonical.encode(statement))["predicate"])
    assert again.plan == trial.plan
    assert again.who == who
