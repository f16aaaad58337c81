"""Who owns which page: the rules of the engine's side, without memory, pipes or time, so that they can be explored.

A page is claimed for a ticket and lent to the proxy; it comes back with its record alone. The engine waits for one
ticket at a time and takes the first record of it, whoever wrote it; a record of another ticket only returns its page.
The watchdog writes a page of its own, never one that is lent.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum


class Cause(IntEnum):
    """How a round ended."""

    DELIVERED = 0  # a reply that was accepted; its rows say more
    REFUSED = 1  # a reply that breaks a rule
    ABANDONED = 2  # another round began before the reply came
    TIMED_OUT = 3  # the watchdog's time passed
    NO_PAGE = 4  # every page is with the proxy
    PROXY_DOWN = 5  # there is no proxy, or it has not said hello
    PEER_LOST = 6  # the drafter closed the wire, or takes no more
    UNREADABLE = 7  # the entry of the round never came, or cannot be a step
    FOREIGN = 8  # a record of a page that was not lent for its ticket, or a page that holds another round


class Take(IntEnum):
    """What a record is to whoever waits."""

    MINE = 0
    STALE = 1


@dataclass(slots=True, kw_only=True)
class Pages:
    """Free and lent pages, and the watchdog's own, which is neither."""

    watchdog: int
    free: list[int]
    lent: dict[int, int] = field(default_factory=dict)  # page to ticket
    taken: int | None = None  # the page that is being read

    @classmethod
    def of(cls, pages: Iterable[int], watchdog: int) -> "Pages":
        """All free."""
        return cls(free=list(pages), watchdog=watchdog)

    def claim(self, ticket: int) -> int | None:
        """A page to lend for a ticket; None if all are lent."""
        if not self.free:
            return None
        page = self.free.pop(0)
        self.lent[page] = ticket
        return page

    def settle(self, ticket: int, page: int, awaited: int) -> Take:
        """What to do with a record of (ticket, page) while `awaited` is waited for.

        ValueError for a record of a page that is not lent for its ticket: it would be foreign.
        """
        mine = ticket == awaited
        if page != self.watchdog:
            if self.lent.get(page) != ticket:
                raise ValueError(f"a record of page {page} for ticket {ticket}; it is lent for {self.lent.get(page)}")
            del self.lent[page]
            if mine:
                self.taken = page
            else:
                self.free.append(page)
        return Take.MINE if mine else Take.STALE

    def release(self) -> None:
        """What was taken has been copied."""
        if self.taken is not None:
            self.free.append(self.taken)
            self.taken = None
