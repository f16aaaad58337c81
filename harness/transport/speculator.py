"""The engine's entry to sampled drafts. It cannot be built without an admission."""

from typing import Any

from pp3.harness.transport.admission import Admission, Side, held
from pp3.harness.transport.channel import Channel
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.layout import layout_of
from pp3.harness.transport.remote import Drafted, drafted
from pp3.harness.transport.step import Step


class GuardedSpeculator:
    """Rounds over a channel for the session that was admitted. CampaignError without an admission of the engine."""

    def __init__(self, admission: Admission, channel: Channel) -> None:
        self._admission, self._channel = held(admission, Side.ENGINE), channel

    def submit(self, step: Step) -> None:
        """Ask for a round. ValueError for one of another mode, depth or slot than was admitted."""
        for name, got, wanted in (
            ("mode", step.mode, Mode.SAMPLED),
            ("depth", step.depth, self._admission.depth),
        ):
            if got != wanted:
                raise ValueError(f"a round of {name} {got}; {wanted} was admitted for the session")
        self._check([row.slot for row in step.rows])
        self._channel.submit(step)

    def submit_gathered(self, number: int, slots: list[int], there: Any) -> None:
        """Ask for a round whose rows the channel's writer takes from elsewhere. ValueError for a slot not admitted."""
        self._check(slots)
        layout = layout_of(len(slots), self._admission.depth, Mode.SAMPLED)
        self._channel.submit_gathered(number, layout, slots, there)

    def collect(self) -> Drafted:
        """The drafts of the round."""
        return drafted(self._channel.collect())

    def _check(self, slots: list[int]) -> None:
        if not all(0 <= slot < self._admission.slots for slot in slots):
            raise ValueError(f"slots {slots}; those below {self._admission.slots} were admitted")
