"""Samplers written down in steps, so that a bug replaces one of them."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pp3 import Batch, Description, Emission, Report
from pp3.harness.samplers.torch_controls import StandardRejection
from pp3.harness.verdict import Verdict

Change = Callable[..., Any]
BLATANT = 8_000  # requests of each law that bugs as large as these need
IMPOSSIBLE = r"[\d,]+ of [\d,]+ have probability 0: token \d+ \("
OFF = r"off by about 0\.\d+ in total variation, 0\.\d+ would be seen; "


@dataclass
class Verifier:
    """Standard rejection in steps; a bug replaces one of them."""

    bugs: dict[str, Change] = field(default_factory=dict)
    kind: str = "verifier"
    declared: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)  # what a bug keeps from one batch to the next

    def describe(self) -> Description:
        """See the contract."""
        said: dict[str, Any] = {"target_carrier": "logits", "draft_carrier": "logits", "greedy": True}
        return Description(**{"name": "planted", "kind": self.kind} | said | self.declared)

    def step(self, name: str, value: Any, *context: Any) -> Any:
        """A value, or what a bug makes of it."""
        return self.bugs[name](self, value, *context) if name in self.bugs else value

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        drafts, proposal = self.drafted(batch) if self.kind == "pipeline" else (batch.draft_ids.long(), None)
        drafts = self.step("drafts", drafts, batch)
        if proposal is None:
            heat = self.step("draft temperature", torch.where(batch.temperature > 0, batch.temperature, 1), batch)
            proposal = torch.softmax(batch.draft_logits.double() / heat[:, None, None], dim=-1)
        proposal = self.step("proposal", proposal, batch)
        logits = batch.target_logits_after(drafts) if self.kind == "pipeline" else batch.target_logits
        logits = self.step("target logits", logits.double(), batch)
        greedy = torch.nn.functional.one_hot(logits.argmax(-1), logits.shape[-1]).double()
        target = torch.where((batch.temperature > 0)[:, None, None], torch.softmax(logits, dim=-1), greedy)
        target = self.step("target", target, batch)
        return self.judge(batch, drafts, target, proposal)

    def drafted(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Its own drafts [n, K] and their laws [n, K, V]."""
        drafts: list[torch.Tensor] = []
        laws: list[torch.Tensor] = []
        generator = self.step("draft generator", batch.generator, batch)
        for j in range(batch.depth):
            logits = batch.draft_logits_after(j, drafts[-1] if drafts else None).double()
            heat = torch.where(batch.temperature > 0, batch.temperature, 1)
            law = torch.softmax(logits / heat[:, None], dim=-1)
            laws.append(law)
            token = race(self.step("draft law", law, batch), generator)
            drafts.append(torch.where(batch.temperature > 0, token, law.argmax(-1)))
        return torch.stack(drafts, dim=1), torch.stack(laws, dim=1)

    def judge(self, batch: Batch, drafts: torch.Tensor, target: torch.Tensor, proposal: torch.Tensor) -> Emission:
        """Keep with min(1, P/Q), then (P - Q)+, then the bonus."""
        n, depth = drafts.shape
        rows, void = torch.arange(n), batch.tensors.given == -1
        ids = drafts.clamp(min=0)
        p, q = target[:, :depth].gather(2, ids[..., None])[..., 0], proposal.gather(2, ids[..., None])[..., 0]
        coins = self.step("coins", torch.rand(n, depth, generator=batch.generator, dtype=torch.float64), batch)
        greedy = (batch.temperature == 0)[:, None]
        kept = self.step("kept", torch.where(greedy, p > 0, coins * q < p), coins, p, q) & ~void
        length = self.step("length", kept.long().cumprod(dim=1).sum(dim=1), kept)
        at = length.clamp(max=depth - 1)
        law = target[rows, self.step("bonus row", length, depth)]
        rejected = (length < depth) & ~void[rows, at]
        residual = self.step("residual", (law - proposal[rows, at]).clamp(min=0), law, proposal[rows, at])
        law = torch.where((rejected & ~greedy[:, 0])[:, None], residual, law)
        law = self.step("law", law, batch, length, void)
        last = race(law, self.step("last generator", batch.generator, batch))
        tokens = torch.full((n, depth + 1), -1)
        tokens[:, :depth] = ids
        tokens.scatter_(1, length[:, None], last[:, None])
        return Emission(tokens=tokens, num_sampled=length + 1, drafts=drafts, proposed=drafts)


def race(law: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One token a row by exponential clocks."""
    return (law / torch.empty_like(law).exponential_(generator=generator)).argmax(dim=-1)


def logits_by(change: Callable[[torch.Tensor, Batch], torch.Tensor]) -> Verifier:
    """Target logits as a bug makes them."""
    return Verifier({"target logits": lambda s, x, b: change(x, b)})


def warm(batch: Batch) -> torch.Tensor:
    """Temperatures [n, 1, 1], 1 where greedy."""
    return torch.where(batch.temperature > 0, batch.temperature, 1)[:, None, None]


class Block:
    """Block verification (Sun et al. 2024) of probabilities; a bug replaces one of its steps."""

    def __init__(self, bug: str = "") -> None:
        self.bug = bug

    def describe(self) -> Description:
        """See the contract."""
        return Description(name="block", kind="verifier", target_carrier="probs", rule="block", greedy=True)

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        ids, p, q = batch.draft_ids.long(), batch.target_probs.double(), batch.draft_probs.double()
        n, depth = ids.shape
        rows = torch.arange(n)
        coins = torch.rand(n, depth, generator=batch.generator, dtype=torch.float64)
        ratio, scale, length = torch.ones(n).double(), torch.ones(n).double(), torch.zeros(n, dtype=torch.int64)
        for i in range(1, depth + 1):
            ratio = ratio * p[rows, i - 1, ids[:, i - 1]] / q[rows, i - 1, ids[:, i - 1]]
            ratio = ratio if self.bug == "unclamped" else ratio.clamp(max=1)
            left = (ratio[:, None] * p[:, i] - q[:, min(i, depth - 1)]).clamp(min=0).sum(1)
            chance = ratio if i == depth or self.bug == "ratio alone" else left / (left + 1 - ratio)
            kept = coins[:, i - 1] < torch.where(ratio == 1, 1.0, chance)
            kept = kept & (length == i - 1) if self.bug == "stops at once" else kept
            length, scale = torch.where(kept, i, length), torch.where(kept, ratio, scale)
        at = length.clamp(max=depth - 1)
        scale = torch.ones_like(scale) if self.bug == "unscaled residual" else scale
        residual = (scale[:, None] * p[rows, length] - q[rows, at]).clamp(min=0)
        law = torch.where((length < depth)[:, None], residual, p[rows, length])
        tokens = torch.cat([ids, ids[:, :1]], 1)
        tokens[rows, length] = race(law, batch.generator)
        return Emission(tokens=tokens, num_sampled=length + 1)


class OneHot(StandardRejection):
    """Keeps a draft with its target probability, else draws from the target without it."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="one-hot", kind="verifier", target_carrier="probs", draft_carrier="one-hot", greedy=True
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        point = torch.nn.functional.one_hot(batch.draft_ids.clamp(min=0).long(), batch.vocab).float()
        return super().run(Changed(batch, draft_probs=point))  # type: ignore[arg-type]  # a batch but for one tensor


class SampleMatch:
    """Draws from the target at every position and keeps the drafts that are equal."""

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="match", kind="verifier", target_carrier="logits", rule="sample-match", void="unsupported"
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        law = torch.softmax(batch.target_logits.double(), -1)
        tokens = race(law, batch.generator)
        kept = (tokens[:, :-1] == batch.draft_ids).long().cumprod(1).sum(1)
        return Emission(tokens=tokens, num_sampled=kept + 1)


class Changed:
    """A batch with some of its tensors in another form."""

    def __init__(self, batch: Batch, **changed: Any) -> None:
        self.batch = batch
        vars(self).update(changed)

    def __len__(self) -> int:
        return len(self.batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, name)


DERIVED = re.compile(r"\((\S+/)?(accept|kept|recovery|prefix|match|round-match|pair|length-pair|rare-cell|fit)\b")


def found(report: Report, reason: str) -> None:
    """A FAIL, or INVALID where the contract is broken, for this reason among the first three that are said of a law by
    itself, and not of what depends on what (tests/test_trial_witness.py is about those)."""
    assert report.verdict in (Verdict.FAIL, Verdict.INVALID), str(report)
    said = [one for one in report.reasons if not DERIVED.search(one)]
    assert any(re.search(reason, one) for one in said[:3]), str(report)
