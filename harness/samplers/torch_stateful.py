"""A control that keeps state: what it learns of a request when that takes a slot, it goes by until another takes it.

Its seed and temperature are read once; its position is the sampler's own count; draft laws lie in a buffer by slot,
written as drafts are drawn and read when they are judged. Random numbers follow from (seed, position) alone.
"""

from dataclasses import dataclass
from enum import IntEnum

import torch

from pp3.harness.samplers.contract import WANTED, Batch, Carrier, Description, Emission, Kind, Randomness

NOBODY = -1


class Use(IntEnum):
    """What a random number is for."""

    DRAFT = 0
    COIN = 1
    LAST = 2


@dataclass(slots=True, kw_only=True, eq=False)
class State:
    """Everything by slot."""

    generation: torch.Tensor  # [slots] int64: whose state it is
    seed: torch.Tensor  # [slots] int64
    temperature: torch.Tensor  # [slots] fp32
    position: torch.Tensor  # [slots] int64: of the next draft
    drafted: torch.Tensor  # [slots, K, V] fp64: laws of the drafts of this round


class Stateful:
    """A pipeline: drafts by inversion, then standard rejection."""

    def __init__(self) -> None:
        self.state: State | None = None

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="torch-stateful",
            kind=Kind.PIPELINE,
            version=torch.__version__,
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.LOGITS,
            randomness=Randomness.KEYED,
            greedy=True,
            ragged=True,
        )

    def reset(self) -> None:
        """Forget everybody."""
        self.state = None

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        state = self.state = self.state or self.empty(batch)
        slots = self.places(batch)
        self.admit(state, slots, batch)
        heat = state.temperature[slots]
        proposed = self.draft(state, slots, batch)
        given = batch.tensors.given.long()
        drafts = torch.where(given == WANTED, proposed, given)
        target = law_of(batch.target_logits_after(drafts), torch.where(heat > 0, torch.ones_like(heat), heat))
        tokens, num_sampled = self.judge(state, slots, drafts, target)
        self.advance(state, slots, batch.depth + 1)
        return Emission(tokens=tokens, num_sampled=num_sampled, drafts=drafts, proposed=proposed)

    def empty(self, batch: Batch) -> State:
        """Slots that nobody has."""
        slots = torch.full((batch.num_slots,), NOBODY, device=batch.device)
        return State(
            generation=slots,
            seed=slots.clone(),
            temperature=torch.full_like(slots, torch.nan, dtype=torch.float32),
            position=slots.clone(),
            drafted=torch.full(
                (len(slots), batch.depth, batch.vocab), torch.nan, dtype=torch.float64, device=slots.device
            ),
        )

    def places(self, batch: Batch) -> torch.Tensor:
        """Where the state of each row lies, [n]."""
        slots: torch.Tensor = batch.slots
        return slots

    def admit(self, state: State, slots: torch.Tensor, batch: Batch) -> None:
        """Take in who is new in a slot."""
        new = self.news(state, slots, batch)
        at = slots[new]
        state.generation[at] = batch.generation[new]
        state.seed[at], state.temperature[at] = batch.seeds[new], batch.temperature[new]
        state.position[at] = batch.pos[new]

    def news(self, state: State, slots: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Which rows [n] have a slot whose state is another's."""
        new: torch.Tensor = state.generation[slots] != batch.generation
        return new

    def draft(self, state: State, slots: torch.Tensor, batch: Batch) -> torch.Tensor:
        """Drafts [n, K]; their laws go to the slots."""
        drafted: list[torch.Tensor] = []
        for j in range(batch.depth):
            logits = batch.draft_logits_after(j, drafted[-1] if drafted else None)
            law = law_of(logits, state.temperature[slots])
            state.drafted[slots, j] = law
            drafted.append(chosen(law, uniform(state.seed[slots], state.position[slots] + j, Use.DRAFT)))
        return torch.stack(drafted, dim=1)

    def judge(
        self, state: State, slots: torch.Tensor, drafts: torch.Tensor, target: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep drafts [n, K] with min(1, P/Q), then draw from (P - Q)+, or from P where no draft was rejected."""
        n, depth = drafts.shape
        proposal, rows, steps = state.drafted[slots], torch.arange(n, device=drafts.device), torch.arange(depth)
        seed, position = state.seed[slots], state.position[slots]
        there, ids = drafts >= 0, drafts.clamp(min=0)
        p, q = target[:, :depth].gather(2, ids[..., None])[..., 0], proposal.gather(2, ids[..., None])[..., 0]
        coins = uniform(seed[:, None], position[:, None] + steps.to(drafts.device), Use.COIN)
        length = ((coins * q < p) & there).long().cumprod(dim=1).sum(dim=1)
        at = length.clamp(max=depth - 1)
        law = target[rows, length]
        rejected = (length < depth) & there[rows, at]
        law = torch.where(rejected[:, None], (law - proposal[rows, at]).clamp(min=0), law)
        last = chosen(law, uniform(seed, position + length, Use.LAST))
        tokens = torch.cat([ids, ids[:, :1]], dim=1)
        return tokens.scatter(1, length[:, None], last[:, None]), length + 1

    def advance(self, state: State, slots: torch.Tensor, positions: int) -> None:
        """Go on to the next round's positions."""
        state.position[slots] += positions


def law_of(logits: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """Probabilities [n, ..., V] fp64 of logits at temperatures [n]; at 0 all on the argmax."""
    heat = temperature.double().view(-1, *[1] * (logits.ndim - 1))
    best = torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).double()
    return torch.where(heat > 0, torch.softmax(logits.double() / torch.where(heat > 0, heat, 1), dim=-1), best)


def chosen(law: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """One token [n] a row [n, V] by inversion: the first whose running sum lies above."""
    running = law.cumsum(dim=-1)
    return (running <= uniform[:, None] * running[:, -1:]).sum(dim=-1)


def uniform(seed: torch.Tensor, position: torch.Tensor, use: Use) -> torch.Tensor:
    """Multiples of 2^-32 in [0, 1), fp64, by SplitMix64's finaliser (Steele, Lea, Flood 2014) of each argument."""
    return ((mixed(mixed(seed) + len(Use) * position + use) >> 32) & 0xFFFFFFFF).double() / 2.0**32


def mixed(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's next output after state x, int64 for its bits."""
    x = x - 0x61C8864680B583EB  # plus the golden ratio, 0x9E3779B97F4A7C15
    x = (x ^ shifted(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ shifted(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ shifted(x, 31)


def shifted(x: torch.Tensor, bits: int) -> torch.Tensor:
    """A logical right shift."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
