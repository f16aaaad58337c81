"""Engines: nobody sees their drafts, so they are held to what they emit; right ones pass, and bugs show."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from one_thread import one_thread

from pp3 import Batch, Description, Emission, Report, qualify
from pp3.harness.cells import Event
from pp3.harness.samplers.contract import Kind
from pp3.harness.seeds import Seed
from pp3.harness.trial import guard, launches, run
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import EMITTED, EVENTS, choose, names, required
from pp3.harness.verdict import Verdict

REQUESTS = 8_000
Bug = Callable[..., Any]
NOTHING_SEEN = {Event.PROPOSAL, Event.KEPT, Event.ACCEPT, Event.RESIDUAL, Event.RECOVERY, Event.FULL_TARGET}


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several a law; and one thread, since spinning ones starve each other."""
    monkeypatch.setitem(launches.ROWS, "cpu", REQUESTS // 4)
    with one_thread():
        yield


@dataclass
class Engine:
    """Drafts and verifies in steps, and returns tokens alone; a bug replaces one of them."""

    bugs: dict[str, Bug] = field(default_factory=dict)

    def describe(self) -> Description:
        """See the contract."""
        return Description(name="planted", kind=Kind.ENGINE, greedy=True)

    def step(self, name: str, value: Any, *context: Any) -> Any:
        """A value, or what a bug makes of it."""
        return self.bugs[name](value, *context) if name in self.bugs else value

    def run(self, batch: Batch) -> Any:
        """One round for every request; what lies behind it is never written."""
        hot = (batch.temperature > 0)[:, None]
        drafts: list[torch.Tensor] = []
        laws = []
        for j in range(batch.depth):
            logits = batch.draft_logits_after(j, drafts[-1] if drafts else None).double()
            law = torch.softmax(logits / torch.where(hot, batch.temperature[:, None], 1), dim=-1)
            law = torch.where(hot, law, one_hot(law))
            laws.append(law)
            drafts.append(self.step("draft", torch.multinomial(law, 1, generator=batch.generator)[:, 0], batch))
        ids = torch.stack(drafts, dim=1)
        logits = self.step("logits", batch.target_logits_after(ids).double(), batch)
        target = torch.where(hot[:, :, None], torch.softmax(logits, dim=-1), one_hot(logits))
        proposal = torch.stack(laws, dim=1)
        p, q = (law[:, : batch.depth].gather(2, ids[..., None])[..., 0] for law in (target, proposal))
        coins = torch.rand(p.shape, generator=batch.generator, dtype=torch.float64)
        length = (coins * q < p).long().cumprod(dim=1).sum(dim=1)
        length = self.step("length", length, batch)
        rows = torch.arange(len(batch))
        at = length.clamp(max=batch.depth - 1)
        residual = (target[rows, length] - proposal[rows, at]).clamp(min=0)
        last = torch.where((length < batch.depth)[:, None], residual, target[rows, length])
        last = torch.where(last.sum(dim=1, keepdim=True) > 0, last, target[rows, length])
        token = self.step("token", torch.multinomial(last, 1, generator=batch.generator)[:, 0], batch)
        tokens = torch.empty((len(batch), batch.depth + 1), dtype=torch.int64)
        for j in range(batch.depth):
            tokens[:, j] = torch.where(length > j, ids[:, j], tokens[:, j])
        tokens[rows, length] = token
        return self.step("returned", (tokens, length + 1), batch)


def one_hot(values: torch.Tensor) -> torch.Tensor:
    """All mass on the largest."""
    return torch.nn.functional.one_hot(values.argmax(-1), values.shape[-1]).double()


def judged(bugs: dict[str, Bug], *targets: str) -> Report:
    """What becomes of it."""
    return qualify(Engine(bugs), targets=targets, requests=REQUESTS, device="cpu")


def test_its_events_are_those_that_can_be_seen() -> None:
    """Nothing of drafts; tokens, lengths and what depends on what."""
    assert EVENTS[Kind.ENGINE] == EMITTED
    assert not EMITTED & NOTHING_SEEN
    problems, left = choose(Engine().describe(), names(Kind.ENGINE))
    assert set(left) == {"void", "ragged"}
    assert left["void"] == "invalidated drafts, which this kind (engine) never meets"
    assert set(required(Engine().describe())) <= {problem.name for problem in problems}
    for problem in problems:
        events = {cell.event for cell in problem.cells}
        assert not events & NOTHING_SEEN
        assert events >= {Event.TOKEN, Event.LENGTH, Event.PREFIX, Event.MATCH, Event.PAIR}
        assert (Event.JOINT in events) == problem.target.pair.joint


def test_the_right_one_passes() -> None:
    report = judged({})
    assert report.verdict is Verdict.PASS, str(report)
    assert report.reasons == []


PASSING: dict[str, Bug] = {
    "an emission": lambda r, b: Emission(tokens=r[0], num_sampled=r[1]),
    "numpy": lambda r, b: (r[0].numpy(), r[1].numpy()),
    "narrow integers": lambda r, b: (r[0].clamp(min=-1, max=99).to(torch.int32), r[1].to(torch.int8)),
    "padding behind": lambda r, b: (torch.where(torch.arange(b.depth + 1) < r[1][:, None], r[0], -1), r[1]),
    "garbage behind": lambda r, b: (torch.where(torch.arange(b.depth + 1) < r[1][:, None], r[0], -(1 << 60)), r[1]),
    "tokens behind": lambda r, b: (torch.where(torch.arange(b.depth + 1) < r[1][:, None], r[0], 3), r[1]),
    "drafts, unasked": lambda r, b: Emission(tokens=r[0], num_sampled=r[1], drafts=torch.full_like(r[0], 7)),
}


@pytest.mark.parametrize("returned", PASSING.values(), ids=PASSING)
def test_only_what_is_sampled_is_read(returned: Bug) -> None:
    report = judged({"returned": returned}, "context", "whole")
    assert report.verdict is Verdict.PASS, str(report)


FAILING: dict[str, tuple[dict[str, Bug], str, str]] = {
    "target at another temperature": ({"logits": lambda x, b: x * 1.3}, "near", "near, tokens emitted at position 0"),
    "rows of the position before": (
        {"logits": lambda x, b: torch.cat([x[:, :1], x[:, :-1]], dim=1)},
        "near",
        "near, tokens emitted at position",
    ),
    "the last draft is never kept": (
        {"length": lambda n, b: n.clamp(max=b.depth - 1)},
        "peaked",
        "peaked, numbers of kept drafts",
    ),
    "drafts that are not from the proposal": (
        {"draft": lambda x, b: torch.where(torch.arange(len(x)) % 4 == 0, 0, x)},
        "near",
        "near, ",
    ),
    "a token of the request before": ({"token": lambda x, b: x.roll(1)}, "context", "context, "),
    "every other row copied": (
        {"returned": lambda r, b: tuple(part[torch.arange(len(b)) // 2 * 2] for part in r)},
        "near",
        "near, ",
    ),
}


@pytest.mark.parametrize(("bugs", "target", "said"), FAILING.values(), ids=FAILING)
def test_bugs_show_in_what_is_emitted(bugs: dict[str, Bug], target: str, said: str) -> None:
    report = judged(bugs, target)
    assert report.verdict is Verdict.FAIL, str(report)
    assert any(reason.startswith(said) for reason in report.reasons), str(report)


def test_a_copied_row_shows_between_requests() -> None:
    """Each token has its law, and lengths too: neighbours are equal too often."""
    report = judged(FAILING["every other row copied"][0], "near")
    for check in ("match/requests-1", "pair/requests-1", "length-pair/requests-1"):
        assert any(f"(near/depth-4/{check}: " in reason for reason in report.reasons), str(report)


BROKEN: dict[str, tuple[Bug, str]] = {
    "tokens alone": (lambda r, b: r[0], "returned no num_sampled"),
    "one column": (lambda r, b: (r[0][:, :1], r[1]), r"tokens is \[\d+, 1\]; want"),
    "lengths of 0": (lambda r, b: (r[0], r[1] * 0), "num_sampled outside 1 to depth"),
    "lengths beyond": (lambda r, b: (r[0], r[1] * 0 + b.depth + 2), "num_sampled outside 1 to depth"),
    "an unwritten token": (lambda r, b: (torch.empty_like(r[0]), r[1]), "tokens or drafts outside the vocabulary"),
}


@pytest.mark.parametrize(("returned", "said"), BROKEN.values(), ids=BROKEN)
def test_the_contract_is_held(returned: Bug, said: str) -> None:
    report = judged({"returned": returned}, "near")
    assert report.verdict is Verdict.INVALID, str(report)
    assert any(re.search(said, reason) for reason in report.reasons), str(report)


def test_what_it_kept_is_what_it_emitted() -> None:
    """The guard makes drafts of its tokens, so that contexts follow from them."""
    engine = Engine()
    trial = make(TrialSpec(sampler="it", targets=["context"], requests=64), engine.describe(), "it")
    (problem,) = trial.problems
    batch = run.batch_of(problem, trial.who, Seed.of(trial.plan_sha256, 1), 0, 64, "cpu")
    found = guard.run(engine, batch, Kind.ENGINE)
    for i in range(64):
        kept = int(found.num_sampled[i]) - 1
        assert found.drafts[i, :kept].tolist() == found.tokens[i, :kept].tolist()
    assert found.proposed is None
    assert replace(found).status.tolist() == [0] * 64
