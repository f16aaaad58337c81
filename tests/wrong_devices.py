"""Devices that emit what is nearly right."""

from typing import Any

import numpy as np

from pp3.harness.backends import Reference


class Emits(Reference):
    """The reference with the emitted tables changed."""

    def change(self, ids: Any, tickets: Any) -> None:
        """Change them in place."""

    def propose(self, *given: Any) -> Any:
        found = super().propose(*given)
        ids, tickets = found.ids.copy(), found.tickets.copy()
        self.change(ids, tickets)
        return found._replace(ids=ids, tickets=tickets)


class OneTicketMoved(Emits):
    """One boundary of one row."""

    def change(self, ids: Any, tickets: Any) -> None:
        tickets[3, np.flatnonzero(tickets[3] > 1)[:2]] += np.array([1, -1], np.int32)


class OneTicketLost(Emits):
    """A row of sum 2^24 - 1."""

    def change(self, ids: Any, tickets: Any) -> None:
        tickets[3, tickets[3].argmax()] -= 1


class OneIdTwice(Emits):
    """A support that lists a token twice."""

    def change(self, ids: Any, tickets: Any) -> None:
        ids[3, 8] = ids[3, 7]
