"""Runners that are wrong on purpose, each in one step of theirs: what the battery of a whole engine must catch."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pp3.harness.engine.contract import Finish
from pp3.harness.engine.model import NEUTRAL, Model, Rule
from pp3.harness.engine.runner import Request, Runner


class RowOrder(Runner):
    """Rows are computed in order of arrival and read in order of slots: once a slot is taken again the two differ."""

    def readers(self, live: Sequence[Request]) -> Sequence[Request]:
        """See Runner."""
        return sorted(live, key=lambda request: request.arrival)


class Padding(Runner):
    """Batches are padded to a power of two, and the last real row is computed from the padding."""

    def row(self, request: Request, drafts: list[int], *, drafted: bool) -> int:
        """See Runner."""
        live = [running for running in self.slots if running is not None]
        if len(live) & (len(live) - 1) and request is live[-1]:
            request = replace(request, tokens=[0])
        return super().row(request, drafts, drafted=drafted)


class SlotSeed(Runner):
    """A slot keeps the seed of the first request that it ran."""

    def __init__(self, model: Model, *, slots: int, depth: int, seed: int = 0) -> None:
        super().__init__(model, slots=slots, depth=depth, seed=seed)
        self.kept: dict[int, tuple[int, int]] = {}

    def admit(self, slot: int, request: Request) -> None:
        """See Runner."""
        own = request.proposal_key, request.verify_key
        request.proposal_key, request.verify_key = self.kept.setdefault(slot, own)
        super().admit(slot, request)


class OnePath(Runner):
    """Temperature and filters are applied to the bonus row and to plain rows; drafts are judged without them."""

    def rule(self, request: Request, *, drafted: bool) -> Rule:
        """See Runner."""
        greedy = request.rule.temperature == 0
        return NEUTRAL if drafted and self.speculates(request) and not greedy else request.rule


class StaleDraft(Runner):
    """Every draft of a step is drawn after the last token but one, and judged as if after the token before it."""

    def drafter_class(self, request: Request, before: int) -> int:
        """See Runner."""
        return super().drafter_class(request, request.tokens[-2] if len(request.tokens) > 1 else before)


class NothingStops(Runner):
    """Neither the end token nor a stop token ends an answer."""

    def cut(self, request: Request, tokens: list[int]) -> tuple[list[int], Finish | None]:
        """See Runner."""
        tokens = tokens[: request.ask.length - len(request.tokens)]
        return tokens, Finish.LENGTH if len(request.tokens) + len(tokens) == request.ask.length else None


class PastStop(Runner):
    """What a step accepted after a stop token is emitted too."""

    def cut(self, request: Request, tokens: list[int]) -> tuple[list[int], Finish | None]:
        """See Runner."""
        tokens = tokens[: request.ask.length - len(request.tokens)]
        _, finish = super().cut(request, tokens)
        return tokens, finish


class SharedSeed(Runner):
    """All requests in flight draw by the seed of the first slot's."""

    def keys(self, live: Sequence[Request]) -> tuple[list[int], list[int]]:
        """See Runner."""
        return [live[0].proposal_key] * len(live), [live[0].verify_key] * len(live)


class OtherLogprobs(Runner):
    """A token's log-probability is read from the position before its own."""

    def logprob(self, before: int, token: int, earlier: int) -> float:
        """See Runner."""
        return super().logprob(earlier, token, earlier)


class AbortedNeighbour(Runner):
    """A request that hangs up takes its neighbour's context along: the next slot goes on from the hung-up one's."""

    def __init__(self, model: Model, *, slots: int, depth: int, seed: int = 0) -> None:
        super().__init__(model, slots=slots, depth=depth, seed=seed)
        self.taken: dict[int, int] = {}  # class by arrival

    def release(self, slot: int) -> None:
        """See Runner."""
        gone, neighbour = self.slots[slot], self.slots[(slot + 1) % len(self.slots)]
        super().release(slot)
        if gone is not None and neighbour is not None:
            self.taken[neighbour.arrival] = int(self.model.class_of[gone.last])

    def law_of(self, request: Request, before: int) -> int:
        """See Runner."""
        return self.taken.get(request.arrival, super().law_of(request, before))


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A runner and what it needs to show."""

    runner: type[Runner]
    speculative: bool = False  # seen only where drafts are judged


FAULTS: dict[str, Planted] = {
    "row-order": Planted(runner=RowOrder),
    "padding": Planted(runner=Padding),
    "slot-seed": Planted(runner=SlotSeed),
    "one-path": Planted(runner=OnePath, speculative=True),
    "stale-draft": Planted(runner=StaleDraft, speculative=True),
    "nothing-stops": Planted(runner=NothingStops),
    "past-stop": Planted(runner=PastStop, speculative=True),
    "shared-seed": Planted(runner=SharedSeed),
    "other-logprobs": Planted(runner=OtherLogprobs),
    "aborted-neighbour": Planted(runner=AbortedNeighbour),
}
