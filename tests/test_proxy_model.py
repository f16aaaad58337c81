"""Every interleaving of engine, proxy and watchdog, by explicit-state search over their steps.

The engine's decisions are those of the shipped `Pages`; the steps around it are those of channel.py, serve.py and
watchdog.py, a payload being two halves that are written and read one after the other. The proxy may die between any
two steps. Each planted fault must break an invariant, or the search would show nothing.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import pytest

from pp3.harness.transport.pages import Pages, Take

ROUNDS, CLAIMS, DEATHS = 5, 2, 2
WATCHDOG = CLAIMS + 1
FAILED = 100  # added to a ticket: a failed reply of that round
NOTHING = 0


class Plant(StrEnum):
    """A fault in one of the three."""

    NONE = "none"
    WATCHDOG_IN_LENT_PAGE = "the watchdog writes into the page that the proxy has"
    ANY_RECORD = "the engine takes the first record, whatever its ticket"
    FREED_EARLY = "a page is free as soon as its round has ended"
    STALE_DROPPED = "a late record does not return its page"
    NO_WATCHDOG = "nothing ends a round whose proxy has died"
    PUBLISHED_FIRST = "the proxy sends its record before the second half is written"
    RELEASED_FIRST = "the engine releases a page before it has copied it"


class BrokenError(Exception):
    """An invariant that does not hold."""


@dataclass(frozen=True, slots=True)
class State:
    """All that the three can see, at one moment."""

    ticket: int = 0
    engine: str = "idle"  # idle, claimed, armed, waiting, first, second, copied, done
    page: int = 0  # that the engine has claimed, or reads
    copied: int = 0  # the first half
    free: tuple[int, ...] = tuple(range(1, CLAIMS + 1))
    lent: tuple[tuple[int, int], ...] = ()  # (page, ticket)
    taken: int | None = None
    armed: int = 0
    watchdog: int = 0  # 0 idle, else the halves it has written plus one
    proxy: str = "idle"  # idle, asked, first, second, dead
    held: tuple[int, int, int] = (0, 0, 0)  # of the proxy: ticket, page, what it writes
    orders: tuple[tuple[int, int], ...] = ()
    news: tuple[tuple[int, int], ...] = ()
    halves: tuple[tuple[int, int], ...] = ((NOTHING, NOTHING),) * WATCHDOG
    deaths: int = 0

    def pages(self) -> Pages:
        """The shipped rules, in this state."""
        return Pages(watchdog=WATCHDOG, free=list(self.free), lent=dict(self.lent), taken=self.taken)

    def ruled(self, pages: Pages) -> "State":
        """This state after the shipped rules decided."""
        lent = tuple(sorted(pages.lent.items()))
        return replace(self, free=tuple(pages.free), lent=lent, taken=pages.taken)

    def written(self, page: int, half: int, value: int) -> "State":
        """With one half of a page written."""
        mine = list(self.halves[page - 1])
        mine[half] = value
        return replace(self, halves=(*self.halves[: page - 1], (mine[0], mine[1]), *self.halves[page:]))


def engine(state: State, plant: Plant) -> Iterator[State]:
    """submit, collect: one step."""
    free_lock = state.watchdog == 0  # arm, disarm and publish hold one lock
    if state.engine == "idle" and state.ticket < ROUNDS:
        pages, ticket = state.pages(), state.ticket + 1
        page = pages.claim(ticket)
        if page is not None:
            yield replace(state.ruled(pages), ticket=ticket, engine="claimed", page=page)
        elif free_lock:  # a round that cannot be asked for: published by the watchdog's code, in the engine's thread
            failed = state.written(WATCHDOG, 0, ticket + FAILED).written(WATCHDOG, 1, ticket + FAILED)
            yield replace(failed, ticket=ticket, engine="waiting", news=(*state.news, (ticket, WATCHDOG)))
    elif state.engine == "idle":
        yield replace(state, engine="done")
    elif state.engine == "claimed" and free_lock:
        yield replace(state, engine="armed", armed=state.ticket)
    elif state.engine == "armed":
        orders = state.orders if state.proxy == "dead" else (*state.orders, (state.ticket, state.page))
        yield replace(state, engine="waiting", orders=orders)
    elif state.engine == "waiting" and state.news:
        yield settled(state, plant)
    elif state.engine == "first":
        yield replace(read(state), engine="second", copied=state.halves[state.page - 1][0])
    elif state.engine == "second":
        value = state.halves[state.page - 1][1]
        if not (value == state.copied and value in (state.ticket, state.ticket + FAILED)):
            raise BrokenError(f"round {state.ticket} consumed {state.copied} and {value}")
        yield replace(read(state), engine="copied", copied=0)
    elif state.engine == "copied" and free_lock:
        pages = state.pages()
        pages.release()
        after = replace(state.ruled(pages), engine="idle", page=0, armed=0)
        yield renewed(after) if state.proxy == "dead" else after


def settled(state: State, plant: Plant) -> State:
    """The next record, judged by the shipped rules."""
    (ticket, page), news = state.news[0], state.news[1:]
    pages = state.pages()
    awaited = ticket if plant is Plant.ANY_RECORD else state.ticket
    try:
        take = pages.settle(ticket, page, awaited)
    except ValueError as error:
        raise BrokenError(str(error)) from None
    if plant is Plant.STALE_DROPPED and take is Take.STALE and page in pages.free:
        pages.free.remove(page)
    if plant is Plant.RELEASED_FIRST:
        pages.release()
    if plant is Plant.FREED_EARLY and take is Take.MINE:
        for early in [other for other, of in pages.lent.items() if of == ticket]:
            del pages.lent[early]
            pages.free.append(early)
    after = replace(state.ruled(pages), news=news)
    return replace(after, engine="first", page=page) if take is Take.MINE else after


def read(state: State) -> State:
    """Who reads must be alone."""
    if state.proxy not in ("idle", "dead") and state.held[1] == state.page:
        raise BrokenError(f"page {state.page} is read while the proxy has it")
    if state.page in state.free:
        raise BrokenError(f"page {state.page} is read when it is free")
    return state


def renewed(state: State) -> State:
    """Another proxy, with memory, pipes and pages of its own; tickets go on."""
    return State(ticket=state.ticket, deaths=state.deaths)


def proxy(state: State, plant: Plant) -> Iterator[State]:
    """serve.Proxy: one step."""
    if state.proxy == "dead":
        return
    if state.deaths < DEATHS:
        yield replace(state, proxy="dead", deaths=state.deaths + 1, orders=())
    ticket, page, value = state.held
    if state.proxy == "idle" and state.orders:
        ticket, page = state.orders[0]
        yield replace(state, proxy="asked", held=(ticket, page, ticket), orders=state.orders[1:])
    elif state.proxy == "asked":  # a reply has come, or another order has
        yield write(state, 0, "first")
        if state.orders:
            yield write(replace(state, held=(ticket, page, ticket + FAILED)), 0, "first")
    elif state.proxy == "first" and plant is Plant.PUBLISHED_FIRST:
        yield replace(state, proxy="second", news=(*state.news, (ticket, page)))
    elif state.proxy == "first":
        yield write(state, 1, "second")
    elif state.proxy == "second" and plant is Plant.PUBLISHED_FIRST:
        yield replace(state.written(page, 1, value), proxy="idle", held=(0, 0, 0))
    elif state.proxy == "second":
        yield replace(state, proxy="idle", held=(0, 0, 0), news=(*state.news, (ticket, page)))


def write(state: State, half: int, after: str) -> State:
    """Who writes must have the page."""
    ticket, page, value = state.held
    if dict(state.lent).get(page) != ticket:
        raise BrokenError(f"the proxy writes page {page} for {ticket}; it is lent for {dict(state.lent).get(page)}")
    return replace(state.written(page, half, value), proxy=after)


def watchdog(state: State, plant: Plant) -> Iterator[State]:
    """The thread: it may fire at any time that a round is armed."""
    if not state.armed or plant is Plant.NO_WATCHDOG:
        return
    page = WATCHDOG
    if plant is Plant.WATCHDOG_IN_LENT_PAGE:
        page = next((page for page, of in state.lent if of == state.armed), WATCHDOG)
    if state.watchdog < 2:
        value = state.armed + FAILED
        yield replace(state.written(page, state.watchdog, value), watchdog=state.watchdog + 1)
    else:
        yield replace(state, watchdog=0, armed=0, news=(*state.news, (state.armed, page)))


def check(state: State) -> None:
    """No page is lost, none is in two hands."""
    lent = dict(state.lent)
    known = [*state.free, *lent, *([state.taken] if state.taken is not None else [])]
    if sorted(known) != list(range(1, CLAIMS + 1)):
        raise BrokenError(f"pages {sorted(known)}: one is lost or in two hands")
    on_the_way = {page for _, page in (*state.orders, *state.news)} | {state.held[1]}
    claimed = {state.page} if state.engine in ("claimed", "armed") else set()
    if state.proxy != "dead" and not set(lent) <= on_the_way | claimed:
        raise BrokenError(f"page {set(lent) - on_the_way} is lent and will not come back")


def explore(plant: Plant) -> int:
    """Every reachable state; their number. BrokenError for the first invariant that does not hold."""
    start = State()
    before: dict[State, list[State]] = {start: []}
    pending, ends = deque([start]), []
    while pending:
        state = pending.popleft()
        check(state)
        following = [*engine(state, plant), *proxy(state, plant), *watchdog(state, plant)]
        if state.engine == "done":
            ends.append(state)
        for after in following:
            if after not in before:
                before[after] = []
                pending.append(after)
            before[after].append(state)
    alive, back = set(ends), deque(ends)
    while back:
        for state in before[back.popleft()]:
            if state not in alive:
                alive.add(state)
                back.append(state)
    stuck = before.keys() - alive
    if stuck:
        raise BrokenError(f"{len(stuck)} states from which no round ends, as {next(iter(stuck))}")
    return len(before)


def test_no_interleaving_breaks_an_invariant() -> None:
    """Five rounds, two pages, up to two deaths of the proxy."""
    assert explore(Plant.NONE) > 5_000


@pytest.mark.parametrize("plant", [plant for plant in Plant if plant is not Plant.NONE])
def test_a_planted_fault_is_found(plant: Plant) -> None:
    """Or the search would show nothing."""
    with pytest.raises(BrokenError):
        explore(plant)
