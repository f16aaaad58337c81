"""Every interleaving of engine, GPU, proxy and watchdog over the ring, by explicit-state search over their steps.

What the engine tells of a round has a part that the host writes (the head) and parts that a GPU's stream writes later,
in order (two halves of the rows, then the stamp). The steps are those of ring.py, gather.py and channel.py; who owns an
entry is decided by the shipped `Pages`. A proxy that has seen its stamp must read its own round and nothing else. Each
planted fault must break that, or the search would show nothing.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import pytest

from pp3.harness.transport.pages import Pages, Take

ROUNDS, CLAIMS = 4, 2
WATCHDOG = CLAIMS + 1
HEAD, FIRST, SECOND, STAMP = range(4)
PARTS = (HEAD, FIRST, SECOND)
EMPTY = (0, 0, 0, 0)


class Plant(StrEnum):
    """A fault in one of the four."""

    NONE = "none"
    STAMP_FIRST = "the stamp is copied before the rows"
    TWO_STREAMS = "the copies of two rounds have no order"
    ANY_STAMP = "the proxy takes an entry with any stamp"
    FREED_EARLY = "an entry is free as soon as its round has ended"
    HEAD_AFTER = "the host writes the head when the copies are under way"


class BrokenError(Exception):
    """A proxy has read what is not its round."""


@dataclass(frozen=True, slots=True)
class State:
    """All that the four can see, at one moment."""

    ticket: int = 0
    engine: str = "idle"  # idle, begun, told, asked, waiting, done
    page: int = 0
    free: tuple[int, ...] = tuple(range(1, CLAIMS + 1))
    lent: tuple[tuple[int, int], ...] = ()  # (page, ticket)
    armed: int = 0
    entries: tuple[tuple[int, int, int, int], ...] = (EMPTY,) * CLAIMS  # the ticket whose part lies there
    stream: tuple[tuple[int, int, int], ...] = ()  # (page, part, ticket) that the GPU has yet to write
    orders: tuple[tuple[int, int], ...] = ()
    news: tuple[tuple[int, int], ...] = ()
    held: tuple[int, int] = (0, 0)  # of the proxy: ticket and page
    read: int = -1  # parts that it has read; -1: it waits for the stamp

    def written(self, page: int, part: int, value: int) -> "State":
        """With one part of an entry written."""
        parts = list(self.entries[page - 1])
        parts[part] = value
        entry = (parts[0], parts[1], parts[2], parts[3])
        return replace(self, entries=(*self.entries[: page - 1], entry, *self.entries[page:]))


def engine(state: State, plant: Plant) -> Iterator[State]:
    """Channel.submit_gathered and collect: one step."""
    ticket, page = state.ticket, state.page
    if state.engine == "idle" and ticket == ROUNDS:
        yield replace(state, engine="done")
    elif state.engine == "idle":
        pages = Pages(watchdog=WATCHDOG, free=list(state.free), lent=dict(state.lent))
        claimed = pages.claim(ticket + 1)
        after = replace(state, ticket=ticket + 1, free=tuple(pages.free), lent=tuple(sorted(pages.lent.items())))
        if claimed is None:
            yield after  # the round fails at once
        else:
            yield replace(after.written(claimed, STAMP, 0), engine="begun", page=claimed, armed=ticket + 1)
    elif state.engine == "begun":
        after = state if plant is Plant.HEAD_AFTER else state.written(page, HEAD, ticket)
        yield replace(after, engine="told")
    elif state.engine == "told":
        yield replace(state, engine="asked", orders=(*state.orders, (ticket, page)))
    elif state.engine == "asked":
        order = (STAMP, FIRST, SECOND) if plant is Plant.STAMP_FIRST else (FIRST, SECOND, STAMP)
        copies = tuple((page, part, ticket) for part in order)
        yield replace(state, engine="late" if plant is Plant.HEAD_AFTER else "waiting", stream=(*state.stream, *copies))
    elif state.engine == "late":
        yield replace(state.written(page, HEAD, ticket), engine="waiting")
    elif state.engine == "waiting" and state.news:
        yield settled(state, plant)


def settled(state: State, plant: Plant) -> State:
    """The next record, judged by the shipped rules; what was taken has been copied at once."""
    (ticket, page), news = state.news[0], state.news[1:]
    pages = Pages(watchdog=WATCHDOG, free=list(state.free), lent=dict(state.lent))
    if plant is Plant.FREED_EARLY and page != WATCHDOG and pages.lent.get(page) != ticket:
        return replace(state, news=news)
    take = pages.settle(ticket, page, state.ticket)
    pages.release()
    if plant is Plant.FREED_EARLY and take is Take.MINE:
        for early in [other for other, of in pages.lent.items() if of == ticket]:
            del pages.lent[early]
            pages.free.append(early)
    after = replace(state, news=news, free=tuple(pages.free), lent=tuple(sorted(pages.lent.items())))
    return replace(after, engine="idle", page=0, armed=0) if take is Take.MINE else after


def gpu(state: State, plant: Plant) -> Iterator[State]:
    """The stream writes its next part, at any time."""
    rounds = {ticket for *_, ticket in state.stream}
    for chosen in rounds if plant is Plant.TWO_STREAMS else sorted(rounds)[:1]:
        at = next(at for at, (*_, ticket) in enumerate(state.stream) if ticket == chosen)
        page, part, ticket = state.stream[at]
        yield replace(state.written(page, part, ticket), stream=(*state.stream[:at], *state.stream[at + 1 :]))


def proxy(state: State, plant: Plant) -> Iterator[State]:
    """Ring.take, and a record for the page: one step."""
    ticket, page = state.held
    if not ticket:
        if state.orders:
            yield replace(state, held=state.orders[0], orders=state.orders[1:], read=-1)
        return
    over = replace(state, held=(0, 0), read=-1, news=(*state.news, (ticket, page)))
    entry = state.entries[page - 1]
    if state.read < 0:
        yield over  # it has waited long enough: UNREADABLE
        if entry[STAMP] == ticket or (plant is Plant.ANY_STAMP and entry[STAMP]):
            yield replace(state, read=0)
    elif state.read < len(PARTS):
        found = entry[PARTS[state.read]]
        if found != ticket:
            raise BrokenError(f"round {ticket} has part {state.read} of round {found}")
        yield replace(state, read=state.read + 1)
    else:
        yield over


def watchdog(state: State) -> Iterator[State]:
    """It may fire at any time that a round is armed."""
    if state.armed:
        yield replace(state, armed=0, news=(*state.news, (state.armed, WATCHDOG)))


def explore(plant: Plant) -> tuple[int, set[int]]:
    """The number of reachable states, and the rounds that a proxy could read whole. BrokenError for another's."""
    seen, pending, whole = {State()}, deque([State()]), set()
    ended = False
    while pending:
        state = pending.popleft()
        ended |= state.engine == "done"
        whole |= {state.held[0]} if state.read == len(PARTS) else set()
        for after in (*engine(state, plant), *gpu(state, plant), *proxy(state, plant), *watchdog(state)):
            if after not in seen:
                seen.add(after)
                pending.append(after)
    assert ended
    return len(seen), whole


def test_no_interleaving_lets_a_proxy_read_another_round() -> None:
    """Every round can be read whole; entries are used again while copies of older rounds are under way."""
    count, whole = explore(Plant.NONE)
    assert count > 5_000
    assert whole == set(range(1, ROUNDS + 1))


@pytest.mark.parametrize("plant", [plant for plant in Plant if plant is not Plant.NONE])
def test_a_planted_fault_is_found(plant: Plant) -> None:
    """Or the search would show nothing."""
    with pytest.raises(BrokenError):
        explore(plant)
