"""Cut a campaign into pieces: a pure function of the plan, so that everybody cuts alike.

A half of the requests of one cell (target, depth, batch size) is cut at multiples of SPAN from its own beginning:
neighbours are compared within windows that begin there (dependence.WINDOW), and no cut may part a window. Pairs are
cut as a whole run cuts them. A piece is named by what it is and by its request numbers.
"""

from dataclasses import dataclass
from enum import StrEnum

from pp3.harness.backends import Backend
from pp3.harness.campaign import SHARD, Campaign, pair_shards
from pp3.harness.dependence import WINDOW
from pp3.harness.kernel_evidence import PARTS
from pp3.harness.paired import rows_for
from pp3.harness.places import halves

SPAN = 1 << 20  # requests of a piece, unless that makes too many
MOST = 1 << 12  # pieces of all requests, about
WHOLE = "all"  # the kernels' evidence of a GPU in one piece: its identity names what the rest has compiled
assert SHARD % WINDOW == 0  # as spans are multiples of SHARD


class Stage(StrEnum):
    """What a piece is a piece of."""

    KERNELS = "kernels"
    PAIRED = "paired"
    REQUESTS = "requests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a campaign that is run at once."""

    stage: Stage
    part: str = ""  # of the kernels' evidence
    target: str = ""
    depth: int = 0
    batch: int = 0
    half: int = 0  # 0 or 1: of the requests of its cell
    first: int = 0  # request numbers [first, end)
    end: int = 0
    pairs: int = 0

    @property
    def name(self) -> str:
        """Its name, which is fit for a file."""
        if self.stage is Stage.KERNELS:
            return f"{self.stage},{self.part}"
        batch = f",batch-{self.batch}" if self.stage is Stage.REQUESTS else ""
        return f"{self.stage},{self.target},depth-{self.depth}{batch},{self.first}-{self.end}"

    @property
    def requests(self) -> int:
        """Sampled requests in it."""
        return self.end - self.first if self.stage is Stage.REQUESTS else 0


def cut(campaign: Campaign, backend: Backend) -> list[Piece]:
    """Every piece, in the order of the plan: the kernels' evidence, pairs, requests."""
    parts = (WHOLE,) if backend is Backend.CUDA else PARTS
    pieces = [Piece(stage=Stage.KERNELS, part=part) for part in parts]
    first = 0
    for target, depth, pairs in pair_shards(campaign):
        end = first + rows_for(pairs)
        pieces.append(Piece(stage=Stage.PAIRED, target=target.name, depth=depth, first=first, end=end, pairs=pairs))
        first = end
    span = span_of(campaign.spec.requests * len(campaign.targets))
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            for batch in campaign.spec.batch_sizes:
                end = first + campaign.requests_of(depth, batch)
                for half, (low, high) in enumerate(halves(first, end)):
                    pieces += [
                        Piece(
                            stage=Stage.REQUESTS,
                            target=target.name,
                            depth=depth,
                            batch=batch,
                            half=half,
                            first=start,
                            end=min(start + span, high),
                        )
                        for start in range(low, high, span)
                    ]
                first = end
    return pieces


def span_of(requests: int) -> int:
    """Requests of a piece where there are so many in all: a multiple of SHARD."""
    return max(SPAN, -(-requests // (MOST * SHARD)) * SHARD)
