"""K7: the borders of top-k, top-p and min-p, and their ties; and what else goes wrong between filters."""

from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import planting
from pp3.harness.faults.reshape import apportioned
from pp3.harness.faults.running import Integers
from pp3.harness.filters import Hit, Order, Ties
from pp3.harness.samplers.contract import Kind

plant = planting("border of a filter")
FINE = 1 << 50
Row = npt.NDArray[np.float64]  # probabilities [vocab], falling, 0 where filtered


class Filtered(Correct):
    """Temperature, top-k, top-p of what is left, min-p, in FP64; of tied tokens the lower ids are kept."""

    declared = MappingProxyType(
        {
            "filters": ("temperature", "top_k", "top_p", "min_p"),
            "order": Order.TOP_K_FIRST,
            "ties": Ties.LOWER_ID,
            "top_p_ties": Ties.LOWER_ID,
            "top_p_hit": Hit.STOPS,
        }
    )

    def __init__(self, kind: str = Kind.PLAIN) -> None:
        super().__init__(kind)

    def plain_law(self, target: Any) -> Integers:
        """What the filters leave of each row, over 2^50."""
        settings, rows = target.tables, []
        for number, probs in enumerate(settings.probs.astype(np.float64)):
            ids = self.order(probs)
            k, p, least = (_setting(getattr(settings, name), number) for name in ("top_k", "top_p", "min_p"))
            left = self.filtered(probs[ids], int(k or 0), 1.0 if p is None else p, least or 0.0)
            if settings.temperature[number] == 0:
                left = self.greedy(left)
            row = np.zeros_like(probs)
            row[ids] = left
            rows.append(row)
        return apportioned(np.stack(rows), np.full(len(rows), FINE))

    def order(self, probs: Row) -> Integers:
        """Ids by falling probability, equal ones by id."""
        return np.argsort(-probs, kind="stable")

    def filtered(self, left: Row, k: int, p: float, least: float) -> Row:
        """Top-k, then top-p, then min-p."""
        return self.min_p(self.top_p(self.top_k(left, k), p), least)

    def top_k(self, left: Row, k: int) -> Row:
        """The first k; all if k is 0."""
        return np.where((k == 0) | (np.arange(len(left)) < k), left, 0)

    def top_p(self, left: Row, p: float) -> Row:
        """Tokens before which less than p of the whole is."""
        sums = np.cumsum(left)
        return left if p == 1 else np.where(sums - left < p * sums[-1], left, 0)

    def min_p(self, left: Row, least: float) -> Row:
        """Tokens of at least so much of the first's probability."""
        return np.where(left >= least * left[0], left, 0)

    def greedy(self, left: Row) -> Row:
        """The first alone."""
        return np.where(np.arange(len(left)) == 0, left, 0)


def _setting(column: Any, row: int) -> Any:
    return None if column is None else column[row].astype(np.float64)


class DropsCrossing(Filtered):
    """Top-p drops the token that crosses p."""

    def top_p(self, left: Row, p: float) -> Row:
        """The sum with the token is compared; the first is always kept."""
        sums = np.cumsum(left)
        return np.where((p == 1) | (sums <= p * sums[-1]) | (np.arange(len(left)) == 0), left, 0)


class KeepsTies(Filtered):
    """Tokens tied at the border of top-k are all accepted."""

    def top_k(self, left: Row, k: int) -> Row:
        """As many as are larger are counted."""
        return np.where((k == 0) | (np.searchsorted(-left, -left) < k), left, 0)


class KeepsTiesOfP(Filtered):
    """Tokens tied at the border of top-p are all accepted."""

    def top_p(self, left: Row, p: float) -> Row:
        """Down to the probability of the last one kept."""
        kept = super().top_p(left, p)
        return np.where(left >= kept[kept > 0].min(), left, 0)


class NotRenormalised(Filtered):
    """Top-p counts what top-k left as if it were the whole."""

    def top_p(self, left: Row, p: float) -> Row:
        """p of 1, not of what is left."""
        sums = np.cumsum(left)
        return left if p == 1 else np.where(sums - left < p, left, 0)


class ClampedSentinel(Filtered):
    """A top-k of 0, which means all, is clamped to one."""

    def top_k(self, left: Row, k: int) -> Row:
        """At least 1."""
        return super().top_k(left, max(k, 1))


class StaleSorted(Filtered):
    """A list that is no longer sorted is taken for sorted: top-p goes by id."""

    def order(self, probs: Row) -> Integers:
        """By id, the best first, where min-p looks for it."""
        return np.argsort(np.arange(len(probs)) != probs.argmax(), kind="stable")


class OneMoreAtHit(Filtered):
    """A token is kept while the sum before it is at most p, not below it."""

    def top_p(self, left: Row, p: float) -> Row:
        """Declared to stop at a hit."""
        sums = np.cumsum(left)
        return left if p == 1 else np.where(sums - left <= p * sums[-1], left, 0)


class OneMore(Filtered):
    """Top-k keeps one token too many."""

    def top_k(self, left: Row, k: int) -> Row:
        """k + 1."""
        return super().top_k(left, k + (k > 0))


class StrictMinP(Filtered):
    """Min-p drops a token that lies on its threshold."""

    def min_p(self, left: Row, least: float) -> Row:
        """Above, not at least; the first is always kept."""
        return np.where((left > least * left[0]) | (np.arange(len(left)) == 0), left, 0)


class AbsoluteMinP(Filtered):
    """Min-p is a probability instead of a share of the largest."""

    def min_p(self, left: Row, least: float) -> Row:
        """Of 1; the first is always kept."""
        return np.where((left >= least) | (np.arange(len(left)) == 0), left, 0)


class MinKept(Filtered):
    """The number of probabilities to report is the least number of tokens that a filter keeps."""

    def top_p(self, left: Row, p: float) -> Row:
        """At least two."""
        return np.where(np.arange(len(left)) < 2, left, super().top_p(left, p))


class TopPFirst(Filtered):
    """Top-p is applied before top-k, against what is declared."""

    def filtered(self, left: Row, k: int, p: float, least: float) -> Row:
        """The other order."""
        return self.min_p(self.top_k(self.top_p(left, p), k), least)


class FirstRowsOrder(Filtered):
    """The sort order of the batch's first row maps every row's tokens back."""

    def plain_law(self, target: Any) -> Integers:
        """Each row gathered by its own order and scattered by the first's."""
        law, probs = super().plain_law(target), target.tables.probs.astype(np.float64)
        found, first = np.zeros_like(law), self.order(probs[0])
        for row, mine in enumerate(probs):
            found[row, first] = law[row, self.order(mine)]
        return found


class HigherId(Filtered):
    """Of tied tokens the higher ids are kept, against what is declared."""

    def order(self, probs: Row) -> Integers:
        """Equal ones by falling id."""
        return len(probs) - 1 - np.argsort(-probs[::-1], kind="stable")


PLAIN: dict[str, Any] = {"kind": Kind.PLAIN, "requests": 4_000}
FAULTS = (
    plant(
        "K7-028", DropsCrossing, "token", "fishaudio/fish-speech PR 1171; Biohub/esm PR 360", ("rows-of-12",), **PLAIN
    ),
    plant("K7-029", KeepsTies, "forbidden", "flashinfer PR 3774", ("rows-of-10",), **PLAIN),
    plant("K7-029/top-p", KeepsTiesOfP, "forbidden", "flashinfer PR 3774", ("rows-of-10",), **PLAIN),
    plant("K7-030", NotRenormalised, "forbidden", "ml-explore/mlx-lm PR 388", ("rows-of-4",), **PLAIN),
    plant("K7-031", ClampedSentinel, "token", "ggml-org/llama.cpp PR 5388", ("rows-of-12",), **PLAIN),
    plant("K7-032", StaleSorted, "forbidden", "ggml-org/llama.cpp PR 4261", ("rows-of-12",), **PLAIN),
    plant("K7-033", OneMoreAtHit, "forbidden", "huggingface/transformers issue 18976", ("rows-of-6",), **PLAIN),
    plant("K7/k", OneMore, "forbidden", "study of statistics", ("rows-of-12",), **PLAIN),
    plant("K7/min-p", StrictMinP, "token", "study of statistics", ("rows-of-6",), **PLAIN),
    plant("K7/absolute", AbsoluteMinP, "token", "study of statistics", ("rows-of-12",), **PLAIN),
    plant("K7/order", TopPFirst, "forbidden", "study of statistics", ("rows-of-12", "rows-of-4"), **PLAIN),
    plant("K7/higher-id", HigherId, "forbidden", "flashinfer PR 3774", ("rows-of-10",), **PLAIN),
    plant("K5-024", MinKept, "forbidden", "ggml-org/llama.cpp PR 5564", ("rows-of-12",), **PLAIN),
    plant("K4-020", FirstRowsOrder, "forbidden", "mlx-vlm PR 1094", ("rows-of-12",), **PLAIN),
)
