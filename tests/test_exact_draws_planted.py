"""The enumeration of draws finds: each planted fault, wrong id, other ticket and flaw of a launch is counted."""

import itertools
from typing import Any

import numpy as np
import pytest
from drawn import ROWS, best, boundaries, tokens_of
from mutant_reference import mutant

from pp3.harness.exact import draws
from pp3.harness.exact.enumeration import Enumeration, Values, differences
from pp3.kernels import reference
from pp3.kernels.addressing import words
from pp3.kernels.reference import SUPPORT, Supports, allocate

SLICE, PIECE = 1 << 19, 1 << 17  # draw values and chunk of the shortened enumeration
SHORT = "disjoint/row-0"


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumerate the first 2^19 draws in four chunks instead of all 2^24."""
    monkeypatch.setattr(draws, "ONE", SLICE)
    monkeypatch.setattr(draws, "CHUNK", PIECE)


def shortened(name: str) -> Values:
    """What the first 2^19 draws of a support must count, its ids and tickets, and its ends."""
    running = np.cumsum(allocate(ROWS[name][None]).tickets[0], dtype=np.int64).clip(max=SLICE)
    return draws.expect([name]) | {name: [*np.diff(running, prepend=0).tolist(), 0, 0]}


def rounded(name: str, number: int) -> Values:
    """What the first `number` draws of a support must count, with its ids and tickets."""
    supports = allocate(ROWS[name][None])
    tokens = tokens_of(supports, np.arange(number))
    counts = [tokens.count(token) for token in supports.ids[0].tolist()]
    return {
        name: [*counts, 0, 0],
        f"{name}/ids": best(ROWS[name]),
        f"{name}/tickets": supports.tickets[0].tolist(),
    }


@pytest.mark.usefixtures("short")
def test_a_short_enumeration_counts_what_it_must() -> None:
    found = draws.observe_reference([SHORT])
    assert differences(found.values, shortened(SHORT)) == []
    assert (found.id, found.claim, found.compared) == ("draws", draws.CLAIM, SLICE + draws.ENDS)


@pytest.mark.usefixtures("short")
def test_no_support_no_draws() -> None:
    assert draws.observe_reference([]) == Enumeration(id="draws", claim=draws.CLAIM, compared=0, values={})


def moved(supports: Supports) -> Supports:
    """One ticket from the first held cell to the next: every boundary but one stays."""
    tickets = supports.tickets.copy()
    first, second = np.flatnonzero(tickets[0] > 1)[:2]
    tickets[0, first] -= 1
    tickets[0, second] += 1
    return supports._replace(tickets=tickets)


def exchanged(supports: Supports) -> Supports:
    """Two cells with their tickets in the other order: the counts of all draws stay."""
    ids, tickets = supports.ids.copy(), supports.tickets.copy()
    ids[0, :2], tickets[0, :2] = ids[0, 1::-1], tickets[0, 1::-1]
    return supports._replace(ids=ids, tickets=tickets)


def foreign(supports: Supports) -> Supports:
    """The first id and its draws are another's, which the support lacks."""
    ids = supports.ids.copy()
    ids[0, 0] = next(token for token in range(len(ids[0]) + 1) if token not in ids[0])
    return supports._replace(ids=ids)


def strayed(supports: Supports, *rest: Any) -> Any:
    """The reference with every draw of the first id another token, which the emitted support lacks."""
    found = reference.propose_rows(supports, *rest)
    first, other = supports.ids[0, 0], foreign(supports).ids[0, 0]
    return found._replace(token=np.where(found.token == first, other, found.token))


def with_supports(change: Any) -> Any:
    """The reference drawing from supports that are not those allocated."""
    return lambda supports, *rest: reference.propose_rows(change(supports), *rest)


FAULTS = {
    "a boundary moved by one": (lambda: with_supports(moved), [0]),
    "two cells exchanged": (lambda: with_supports(exchanged), [SUPPORT + 1]),
    "a token outside the support": (lambda: strayed, [0, SUPPORT]),
    "a support with another id": (lambda: with_supports(foreign), [SUPPORT + 2]),
    "less for less or equal": (lambda: mutant("running <= draw", "running < draw").propose_rows, [0]),
    "one bit too many of the word": (lambda: mutant(">> np.uint32(8)", ">> np.uint32(7)").propose_rows, []),
    "the wrong word": (lambda: mutant("[:, 0] >> np.uint32(8)", "[:, 2] >> np.uint32(8)").propose_rows, []),
    "the first token for the last draw of a cell": (
        lambda: (
            mutant(
                "(running <= draw[:, None]).sum(axis=1)", "(running <= draw[:, None] + 1).sum(axis=1) % SUPPORT"
            ).propose_rows
        ),
        [],
    ),
}


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("plant", "places"), FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_counted(plant: Any, places: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One draw in 2^24 is enough; where it is known which integer tells, it does."""
    monkeypatch.setattr(draws, "propose_rows", plant())
    got, want = draws.observe_reference([SHORT]).values, shortened(SHORT)
    assert differences(got, want)
    every, wanted = ([*values[SHORT], *values[f"{SHORT}/ids"]] for values in (got, want))
    assert [at for at in places if every[at] == wanted[at]] == []


def tied(supports: Supports) -> Supports:
    """The last id is the next one, which ties with it at the 32nd place: every ticket and the order stay."""
    ids = supports.ids.copy()
    ids[:, -1] += 1
    return supports._replace(ids=ids)


@pytest.mark.usefixtures("short")
def test_a_wrong_id_of_a_tie_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the allocation itself is wrong: the expected ids do not come from it."""
    name = "ties-at-the-border"
    row = ROWS[name]
    assert row[31] == row[32] == np.sort(row)[::-1][SUPPORT - 1]
    monkeypatch.setattr(draws, "allocate", lambda logits: tied(allocate(logits)))
    found = draws.observe_reference([name]).values
    want = shortened(name)
    assert want[f"{name}/ids"] == list(range(SUPPORT)) != found[f"{name}/ids"]
    wrong = f"{name}/ids[31] is 32, must be 31"
    assert differences(found, want) == [f"{name}/ends[64] is 64, must be 0", wrong]


def spoilt(field: str, to: int) -> Any:
    """The reference with one field of the row at draw 300,000 another."""

    def propose_rows(supports: Supports, *rest: Any) -> Any:
        found = reference.propose_rows(supports, *rest)
        draw = words(*rest[2:5])[:, 0] >> np.uint32(8)
        value = getattr(found, field).copy()
        value[draw == 300_000] = to
        return found._replace(**{field: value})

    return propose_rows


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("field", "to"), [("ids", 1), ("tickets", 1 << 19), ("status", 1)])
def test_one_row_unlike_the_others_is_counted(field: str, to: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands: its token stays, and it is one more outside."""
    monkeypatch.setattr(draws, "propose_rows", spoilt(field, to))
    found = draws.observe_reference([SHORT]).values
    assert differences(found, shortened(SHORT)) == [f"{SHORT}[32] is 1, must be 0"]


@pytest.mark.usefixtures("short")
def test_other_tickets_than_the_drawn_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alike on every row, beside draws that are right."""

    def propose_rows(supports: Supports, *rest: Any) -> Any:
        found = reference.propose_rows(supports, *rest)
        return found._replace(tickets=np.roll(found.tickets, 1, axis=1))

    monkeypatch.setattr(draws, "propose_rows", propose_rows)
    (wrong,) = differences(draws.observe_reference([SHORT]).values, shortened(SHORT))
    assert wrong.startswith(f"{SHORT}/tickets[")


COUNTED = 256  # draws of the enumeration in the interpreter


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumerate the first 256 draws through the kernels in the interpreter."""
    monkeypatch.setattr(draws, "ONE", COUNTED)
    monkeypatch.setattr(draws, "PART", COUNTED // 4)


def flawed(change: Any) -> Any:
    """The launcher with its outputs changed after the third launch, given what they held before it."""
    from pp3.kernels import proposal

    real, launches = proposal.propose, itertools.count(1)

    def propose(*given: Any, out: Any) -> None:
        before = proposal.Drafts(*(buffer.clone() for buffer in out))
        with np.errstate(all="ignore"):
            real(*given, out=out)
        if next(launches) == 3:
            change(out, before)

    return propose


@pytest.mark.usefixtures("counted")
def test_the_count_of_draws_on_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same buffers for one support after another."""
    from pp3.kernels import proposal

    monkeypatch.setattr(proposal, "propose", flawed(lambda out, before: None))
    names = ("flat", "31-tickets", "nine-finite")
    want: Values = {}
    for name in names:
        want |= rounded(name, COUNTED)
    assert differences(draws.count([(name, ROWS[name]) for name in names], "cpu"), want) == []


def unwritten(field: str, place: int) -> Any:
    """One element of an output is what it was before the launch."""

    def change(out: Any, before: Any) -> None:
        getattr(out, field).view(-1)[place] = getattr(before, field).view(-1)[place]

    return change


def assigned(field: str, place: int, to: int) -> Any:
    """One element of an output is another."""

    def change(out: Any, before: Any) -> None:
        getattr(out, field).view(-1)[place] = to

    return change


def nothing_written(out: Any, before: Any) -> None:
    """All outputs are what they were before the launch."""
    for buffer, held in zip(out, before, strict=True):
        buffer.copy_(held)


TALLIED = {
    "an id unwritten": (unwritten("ids", 100 * SUPPORT + 7), 32),
    "an odd id unwritten": (unwritten("ids", 100 * SUPPORT + 8), 32),
    "an id of the first row unwritten": (unwritten("ids", 3), 32),
    "the last ticket unwritten": (unwritten("tickets", COUNTED * SUPPORT - 1), 32),
    "the first ticket unwritten": (unwritten("tickets", 0), 32),
    "a status unwritten": (unwritten("status", 5), 32),
    "a failed status": (assigned("status", COUNTED - 1, 1), 32),
    "a token unwritten": (unwritten("token", 9), 33),
    "the last token unwritten": (unwritten("token", COUNTED - 1), 33),
    "the first token unwritten": (unwritten("token", 0), 32),
    "a token of another member": (assigned("token", 128, 0), 33),
    "a token that no member has": (assigned("token", COUNTED - 1, 96), 32),
    "nothing written": (nothing_written, 32),
}


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(("change", "place"), TALLIED.values(), ids=TALLIED)
def test_a_flaw_of_a_launch_is_counted(change: Any, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the launch before left the same support in the same buffers."""
    from pp3.kernels import proposal

    monkeypatch.setattr(proposal, "propose", flawed(change))
    wide = np.zeros(SUPPORT, np.float32)
    wide[0] = -6  # few tickets, so that 256 draws give two tokens
    tickets = allocate(wide[None]).tickets[0]
    assert 0 < tickets[0] < COUNTED // 2
    found = draws.count([(str(number), wide) for number in range(3)], "cpu")
    want = [*np.diff(np.cumsum(tickets, dtype=np.int64).clip(max=COUNTED), prepend=0).tolist(), 0, 0]
    assert found["0"] == found["1"] == want
    assert found["2"][place] != want[place]


def test_a_wrong_boundary_is_seen_by_the_short_form() -> None:
    """Boundaries moved by one in every support: the check of both sides sees each."""
    for name, logits in ROWS.items():
        supports = allocate(logits[None])
        if (supports.tickets[0] > 1).sum() < 2:
            continue
        chosen = boundaries(supports)
        keys, sampled = np.full(len(chosen), draws.KEY, np.uint64), np.ones(len(chosen), np.bool_)
        got = draws._draw(moved(supports), sampled, keys, *draws.addresses(chosen))
        assert got.token.tolist() != tokens_of(supports, chosen), name


@pytest.mark.gpu
def test_a_gpu_counts_another_row_differently() -> None:
    """A logit one FP32 step away that moves a ticket is seen, by the counts and the tickets: the ids stay."""
    row = ROWS["nine-finite"].copy()
    place = int(np.flatnonzero(np.isfinite(row))[3])
    while (allocate(row[None]).tickets == allocate(ROWS["nine-finite"][None]).tickets).all():
        row[place] = np.nextafter(row[place], np.float32(9))
    expected = draws.expect(["nine-finite"])
    del expected["nine-finite/ends"]
    wrong = differences(draws.count_cuda([("nine-finite", row)]), expected)
    assert [line.partition("[")[0] for line in wrong] == ["nine-finite", "nine-finite/tickets"]
