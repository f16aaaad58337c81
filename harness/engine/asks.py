"""The requests of a plan, piece by piece: a function of the plan and the seed, whatever order pieces are run in."""

from collections.abc import Iterator
from dataclasses import dataclass

from pp3.harness.engine.conditions import ENDED, EXACT, HANGS_UP, Condition, Kind, Order
from pp3.harness.engine.contract import Ask
from pp3.harness.engine.plan import Plan
from pp3.harness.seeds import Seed, integers

WAVES, LEAST_ASKS = 4, 16  # pairs of batches in a piece; requests at least
SEEDS = 1 << 31  # seeds of requests are below it: every engine takes so many
CHURNED = (4, 64)  # tokens of a request whose slot changes hands soon


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Requests that are asked and counted together."""

    condition: Condition
    first: int  # of the condition's requests
    asks: int
    start: int  # number of the first request, of all conditions

    @property
    def name(self) -> str:
        """Fit for a file."""
        return f"{self.condition.name.replace('/', ',')}-{self.first:09d}"


def pieces(plan: Plan) -> Iterator[Piece]:
    """Every piece of a plan, in order."""
    start = 0
    for condition in plan.conditions:
        whole = condition.kind in EXACT
        company = plan.concurrency if condition.concurrent else 1
        size = condition.asks if whole else max(LEAST_ASKS, WAVES * 2 * company) * len(condition.settings)
        for first in range(0, condition.asks, size):
            asks = min(size, condition.asks - first)
            yield Piece(condition=condition, first=first, asks=asks, start=start + first)
        start += condition.asks


def asks_of(plan: Plan, piece: Piece, seed: Seed) -> list[Ask]:
    """The requests of a piece."""
    condition, chain = piece.condition, plan.chain
    fewest, most = condition.prompts
    width = most + 3
    numbers = integers(seed, f"asks/{piece.name}", piece.asks * width).reshape(piece.asks, width)
    base = int(integers(seed, f"seeds/{condition.name}", 1)[0] % (SEEDS - condition.asks))
    found = []
    for at, row in enumerate(numbers.tolist()):
        place = piece.first + at
        setting = condition.settings[place % len(condition.settings)]
        prompt = tuple(number % chain.ordinary for number in row[: fewest + row[most] % (most - fewest + 1)])
        if condition.kind in ENDED:
            prompt = (*prompt[:-1], chain.doors[row[most + 1] % len(chain.doors)])
        if condition.kind is Kind.GREEDY:
            prompt = (place * chain.ordinary // condition.asks,)
        length = condition.length
        if condition.order is Order.CHURN:
            length = CHURNED[0] + row[most + 2] % (CHURNED[1] - CHURNED[0] + 1)
        found.append(
            Ask(
                number=piece.start + at,
                prompt=prompt,
                length=length,
                temperature=setting.temperature,
                seed=base + place if condition.seeded else None,
                top_k=setting.top_k,
                top_p=setting.top_p,
                min_p=setting.min_p,
                logit_bias=setting.logit_bias,
                repetition_penalty=setting.repetition_penalty,
                logprobs=1 if condition.kind is Kind.LOGPROB else None,
                stop=condition.stops,
                ignore_eos=condition.kind not in ENDED,
                speculate=condition.speculate,
                abort_after=HANGS_UP if condition.hangs_up and place % 3 == 0 else None,
            )
        )
    return found
