"""K5 and K6: a temperature, a filter or a mask that is applied on one path only."""

from typing import Any

import numpy as np

from pp3.harness.faults.acceptance import heats
from pp3.harness.faults.correct import Correct
from pp3.harness.faults.fault import Shows, planting
from pp3.harness.faults.reshape import heated, unmasked
from pp3.harness.faults.running import Integers
from pp3.harness.samplers.contract import Batch, Kind

plant = planting("a parameter or a mask on one path only")
PIPELINE = Kind.PIPELINE


class TargetUnheated(Correct):
    """P of the ratio and the residual is at temperature 1, Q and the bonus at the request's."""

    def target_law(self, target: Any) -> Integers:
        """At temperature 1."""
        return heated(super().target_law(target), heats(target))


class BonusUnheated(Correct):
    """The bonus is drawn at temperature 1."""

    def bonus_law(self, target: Any) -> Integers:
        """At temperature 1."""
        return heated(super().bonus_law(target), heats(target))


class DraftHeatedTwice(Correct):
    """Q of the ratio has the temperature applied twice."""

    def ratio_law(self, target: Any) -> Integers:
        """To the power of 1 / T."""
        return heated(super().ratio_law(target), 1 / heats(target))


class OneHeat(Correct):
    """P has the temperature of the batch's first request, whatever the request's own."""

    def target_law(self, target: Any) -> Integers:
        """From each row's temperature to that of start 0."""
        own = heats(target)
        return heated(super().target_law(target), own / own[0])


class DraftUnheated(Correct):
    """Drafts are drawn at temperature 1, and Q of the ratio is at the request's."""

    def draft_law(self, target: Any) -> Integers:
        """At temperature 1."""
        return heated(super().draft_law(target), heats(target))


class OnlyBonusFiltered(Correct):
    """The filter is applied to the bonus only: what it removes is kept and recovered."""

    def target_law(self, target: Any) -> Integers:
        """A sixteenth of the mass on what the target lacks."""
        return unmasked(super().target_law(target), 16)


class UnmaskedBonus(Correct):
    """The mask is lost on the bonus row."""

    def bonus_law(self, target: Any) -> Integers:
        """A sixteenth of the mass on what the target lacks."""
        return unmasked(super().bonus_law(target), 16)


class UnmaskedEverySecond(Correct):
    """The mask is lost on the bonus of every second row, as where a batch holds unmasked requests too."""

    def bonus_law(self, target: Any) -> Integers:
        """The bonus of every other row is that of the whole vocabulary."""
        law = super().bonus_law(target)
        return np.where(np.arange(len(law))[:, None] % 2 == 0, unmasked(law, 16), law)


class MaskOffAfterVoid(Correct):
    """A draft of -1 switches the processing of its own row off: it is replaced at temperature 1 / 0.8."""

    def void_law(self, target: Any) -> Integers:
        """To the power of 0.8."""
        return heated(super().void_law(target), 0.8)


class NeighboursFilter(Correct):
    """A request is drawn with the settings of the next row, as a list does that was not re-keyed on a removal."""

    def plain_rows(self, batch: Batch, start: Integers) -> Integers:
        """The row after."""
        row: Integers = batch.target.row_of[0, (start + 1) % batch.target.starts]
        return row


STUDY = "study of statistics, section 3"
FAULTS = (
    plant("K5-021", TargetUnheated, "token", "vLLM issue 9834", ("near",)),
    plant("K5-021/bonus", BonusUnheated, "bonus", "vLLM issue 9834", ("near",), others=("prefix",)),
    plant("K5-021/draft-twice", DraftHeatedTwice, "forbidden", STUDY, ("near",)),
    plant("K5-021/one-heat", OneHeat, "token", STUDY, ("mixed",)),
    plant("K5-021/draft", DraftUnheated, "proposal", "vLLM issue 9834", ("near",), kind=PIPELINE),
    plant("K5-022", OnlyBonusFiltered, "forbidden", "vLLM issue 42744", ("far",)),
    plant("K6-026", MaskOffAfterVoid, "full-target", "vLLM issue 44006", ("void",)),
    plant("K6-026/bonus", UnmaskedBonus, "forbidden", "vLLM issue 44006", ("far",), others=("bonus",)),
    plant(
        "K6-026/mixed", UnmaskedEverySecond, "forbidden", "vLLM issues 54437 and 54442", ("mixed",), others=("bonus",)
    ),
    plant("K4-019", NeighboursFilter, "forbidden", "omlx PR 1824", ("rows-of-12",), kind=Kind.PLAIN, shows=Shows.ROUND),
)
