"""The enumeration of draws: every ticket boundary of all 256 supports, and each planted fault counted."""

import bisect
import inspect
import itertools
import types
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3 import targets
from pp3.harness import backends
from pp3.harness.backends import Arithmetic, Backend, Dtype
from pp3.harness.exact import draws, suite
from pp3.harness.exact.enumeration import Enumeration, Values, differences, digest
from pp3.harness.seeds import integers
from pp3.kernels import reference
from pp3.kernels.addressing import words
from pp3.kernels.reference import ONE, SUPPORT, TAU, Supports, allocate

ROWS = dict(draws.rows())
SLICE, PIECE = 1 << 19, 1 << 17  # draw values and chunk of the shortened enumeration
SHORT = "disjoint/row-0"
PARTS = ("ids", "tickets", "ends")
INTERPRETED = (
    "flat",
    "one-finite",
    "nine-finite",
    "31-tickets",
    "ties-at-the-border",
    "ties-everywhere",
    "exactly-32",
    "steep",
    "invalidated/row-0",
    "sparse-tail/row-0",  # four tiles
)
Ints = npt.NDArray[np.int64]


@pytest.fixture(scope="module")
def kernels() -> Arithmetic:
    """The kernels in the interpreter."""
    return backends.start(Backend.INTERPRETER)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enumerate the first 2^19 draws in four chunks instead of all 2^24."""
    monkeypatch.setattr(draws, "ONE", SLICE)
    monkeypatch.setattr(draws, "CHUNK", PIECE)


def mutant(old: str, new: str) -> Any:
    """The reference with one expression of its source replaced."""
    source = inspect.getsource(reference)
    assert source.count(old) == 1, old
    module = types.ModuleType("reference_mutant")
    exec(compile(source.replace(old, new), "<mutant>", "exec"), vars(module))
    return module


def boundaries(supports: Supports) -> Ints:
    """Draws on both sides of every ticket boundary, the first and the last."""
    edges = np.cumsum(supports.tickets[0], dtype=np.int64)
    both = np.concatenate([[0], edges - 1, edges, [ONE - 1]])
    return np.unique(both[(both >= 0) & (both < ONE)])


def tokens_of(supports: Supports, chosen: Ints) -> list[int]:
    """The token that owns each draw, one at a time in Python integers."""
    running = list(itertools.accumulate(supports.tickets[0].tolist()))
    return [int(supports.ids[0, bisect.bisect_right(running, draw)]) for draw in chosen.tolist()]


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


def best(logits: draws.Row) -> list[int]:
    """The support of a row by sorting in Python: larger values first, then lower ids; ascending."""
    values = logits.tolist()
    return sorted(sorted(range(len(values)), key=lambda token: (-values[token], token))[:SUPPORT])


def test_the_supports_are_those_of_the_claim() -> None:
    names = [name for name, _ in draws.rows()]
    assert len(names) == len(set(names)) == draws.SUPPORTS == 256
    for name in targets.NAMES:
        for number, logits in enumerate(targets.build(name).draft_logits):
            assert (ROWS[f"{name}/row-{number}"] == logits).all()
    assert all(row.dtype == np.float32 and SUPPORT <= len(row) <= 1 << 18 for row in ROWS.values())
    assert not any(allocate(row[None]).failed[0] for row in ROWS.values())
    assert {SUPPORT, 97, 12_301} <= {len(row) for row in ROWS.values()}


@pytest.mark.parametrize(
    ("name", "tickets"),
    [
        pytest.param("flat", [ONE // 32] * 32, id="flat-has-equal-cells"),
        pytest.param("one-finite", [ONE], id="one-finite-logit-takes-all"),
        pytest.param("31-tickets", [31, ONE - 31], id="a-cell-of-31"),
    ],
)
def test_a_special_support(name: str, tickets: list[int]) -> None:
    held = allocate(ROWS[name][None]).tickets[0]
    assert sorted(held[held > 0].tolist()) == tickets


def test_ties_cross_the_32nd_place() -> None:
    """24 threes and 24 ones: the eight lowest ids of the ones come in, and tie with sixteen that do not."""
    assert allocate(ROWS["ties-at-the-border"][None]).ids[0].tolist() == list(range(SUPPORT))
    row = ROWS["ties-everywhere"]
    last = np.sort(row)[::-1][SUPPORT - 1]
    assert (row == last).sum() > (row[allocate(row[None]).ids[0]] == last).sum()


def test_hashed_rows_are_sums_of_four_words() -> None:
    """Recomputed in Python integers from the hash itself."""
    packed = integers(draws.SHARED, "row-7", 5).tolist()
    sums = [sum(int(number) >> 16 * k & 0xFFFF for k in range(4)) for number in packed]
    assert draws.hashed("row-7", 5, 8.0).tolist() == [(total - 131_070) / 4096 for total in sums]


def test_an_address_gives_its_draw(rng: np.random.Generator) -> None:
    """Whatever the eight bits below it, which are not all alike."""
    chosen = np.concatenate([[0, 1, ONE - 2, ONE - 1], rng.integers(0, ONE, 1000)])
    block = words(np.full(len(chosen), draws.KEY, np.uint64), *draws.addresses(chosen))
    assert (block[:, 0] >> np.uint32(8) == chosen).all()
    assert len(set((block[:, 0] & np.uint32(0xFF)).tolist())) > 200


def test_expected_are_tickets_then_two_zeros_ids_and_ends() -> None:
    expected = draws.expect(list(ROWS))
    assert list(expected) == [key for name in ROWS for key in (name, *(f"{name}/{what}" for what in PARTS))]
    for name, logits in ROWS.items():
        counts, supports = expected[name], allocate(logits[None])
        assert isinstance(counts, list)
        assert counts == [*supports.tickets[0].tolist(), 0, 0]
        assert sum(counts) == ONE
        assert expected[f"{name}/ids"] == best(logits) == supports.ids[0].tolist()
        assert expected[f"{name}/tickets"] == supports.tickets[0].tolist()
        found = expected[f"{name}/ends"]
        assert isinstance(found, list)
        *tokens, differing = found
        assert (len(tokens), differing) == (draws.ENDS, 0)
        assert tokens == tokens_of(supports, np.array(draws.ends(supports.tickets[0].tolist())))
        for place in np.flatnonzero(supports.tickets[0]).tolist():
            assert tokens[2 * place : 2 * place + 2] == [supports.ids[0, place]] * 2
    assert draws.expect(["flat", "no such row"]).keys() == {"flat", *(f"flat/{what}" for what in PARTS)}


@pytest.mark.parametrize(
    ("tickets", "ends"),
    [
        pytest.param([2, 1, 3], [0, 1, 2, 2, 3, 5], id="first-and-last-of-each"),
        pytest.param([2, 0, 3], [0, 1, 2, 1, 2, 4], id="both-sides-of-one-without-tickets"),
        pytest.param([0, 4], [0, 0, 0, 3], id="the-first-without-tickets"),
        pytest.param([4, 0, 0], [0, 3, 3, 3, 3, 3], id="the-last-without-tickets"),
    ],
)
def test_the_ends_of_intervals(tickets: list[int], ends: list[int]) -> None:
    assert draws.ends(tickets) == ends


def test_the_ends_are_met_by_few_rows() -> None:
    """Launches of one to four rows and one of more, each below the eight rows a program."""
    from pp3.kernels import proposal

    assert sum(draws.FEW) == draws.ENDS == 2 * SUPPORT
    assert set(draws.FEW) > {1, 2, 3, 4}
    after = list(itertools.accumulate(draws.FEW))
    singles = [place - 1 for place, rows in zip(after, draws.FEW, strict=True) if rows == 1]
    assert singles == [SUPPORT - 1, SUPPORT]  # both sides of the boundary in the middle
    assert max(draws.FEW) < proposal.MANY
    covered = [place for part in draws._launches() for place in range(draws.ENDS)[part]]
    assert covered == list(range(draws.ENDS))


def test_the_size_is_the_number_of_draws() -> None:
    each = ONE + draws.ENDS
    assert [draws.size(supports) for supports in (0, 1, draws.SUPPORTS)] == [0, each, each * draws.SUPPORTS]


def test_both_sides_of_every_boundary_of_all_supports() -> None:
    met = 0
    for name, logits in ROWS.items():
        supports = allocate(logits[None])
        chosen = boundaries(supports)
        keys, sampled = np.full(len(chosen), draws.KEY, np.uint64), np.ones(len(chosen), np.bool_)
        got = draws._draw(supports, sampled, keys, *draws.addresses(chosen))
        assert got.token.tolist() == tokens_of(supports, chosen), name
        met += len(chosen)
    assert met > 10_000


@pytest.mark.parametrize("name", INTERPRETED)
def test_both_sides_of_every_boundary_through_the_kernels(name: str, kernels: Arithmetic) -> None:
    """One launch a support, with the support found anew by sorting in Python."""
    logits = ROWS[name]
    supports = allocate(logits[None])
    chosen = boundaries(supports)
    n = len(chosen)
    got = kernels.propose(
        np.broadcast_to(logits, (n, len(logits))),
        Dtype.FP32,
        np.ones(n, np.bool_),
        np.full(n, draws.KEY, np.uint64),
        *draws.addresses(chosen),
        TAU,
    )
    assert (got.status == 0).all()
    assert (got.ids == best(logits)).all()
    assert (got.tickets == supports.tickets[0]).all()
    assert got.token.tolist() == tokens_of(supports, chosen)


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


def in_launches_of(rows: int, old: str, new: str) -> Any:
    """The reference, edited for launches of so many rows."""
    edited = mutant(old, new).propose

    def propose(logits: Any, *rest: Any) -> Any:
        return (edited if len(logits) == rows else reference.propose)(logits, *rest)

    return propose


FEW_FAULTS = {
    "less for less or equal": ("running <= draw", "running < draw"),
    "the draw before": ("running <= draw[:, None]", "running <= draw[:, None] - 1"),
    "the draw after": ("running <= draw[:, None]", "running[:, :-1] <= draw[:, None] + 1"),
    "the word of another row": (
        "running <= draw[:, None]",
        "running <= np.where(len(draw) > 1, np.roll(draw, 1), draw ^ 1 << 23)[:, None]",
    ),
    "another support": (
        "ids = np.where(drawn[:, None], supports.ids[row]",
        "ids = np.where(drawn[:, None], supports.ids[row] + 1",
    ),
    "other tickets": ("OK)), token, ids, tickets)", "OK)), token, ids, tickets + 1)"),
    "a failed status": ("np.where(failed, np.int32(FAILED), np.int32(OK)), token", "np.where(failed, 0, 1), token"),
}


@pytest.mark.parametrize("rows", sorted(set(draws.FEW)))
@pytest.mark.parametrize(("old", "new"), FEW_FAULTS.values(), ids=FEW_FAULTS)
def test_a_fault_of_few_rows_is_seen_at_the_ends(
    old: str, new: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In launches of every number of rows."""
    assert draws.meet(ROWS["flat"], draws.propose_few) == draws.expect(["flat"])["flat/ends"]
    monkeypatch.setattr(draws, "propose", in_launches_of(rows, old, new))
    assert draws.meet(ROWS["flat"], draws.propose_few) != draws.expect(["flat"])["flat/ends"]


def test_the_ends_of_every_support() -> None:
    expected = draws.expect(list(ROWS))
    for name, logits in ROWS.items():
        assert draws.meet(logits, draws.propose_few) == expected[f"{name}/ends"], name


@pytest.mark.parametrize("name", INTERPRETED)
def test_the_ends_through_the_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of few rows, each of its own."""
    from pp3.kernels import proposal

    launched: list[tuple[int, tuple[int, ...]]] = []
    real = proposal.propose

    def propose(logits: Any, *rest: Any, **more: Any) -> Any:
        launched.append((len(logits), logits.stride()))
        with np.errstate(all="ignore"):
            return real(logits, *rest, **more)

    monkeypatch.setattr(proposal, "propose", propose)
    met = draws.meet(ROWS[name], partial(draws.launch_few, device="cpu"))
    assert met == draws.expect([name])[f"{name}/ends"]
    assert launched == [(rows, (len(ROWS[name]), 1)) for rows in draws.FEW]


@pytest.mark.parametrize("which", ["status", "token", "ids", "tickets"])
@pytest.mark.parametrize("rows", sorted(set(draws.FEW)))
def test_what_few_rows_leave_unwritten_is_seen(rows: int, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last element of its first launch of so many rows stays as it was."""
    from pp3.kernels import proposal

    real, launches = proposal.propose, itertools.count()
    which_launch = draws.FEW.index(rows)

    def propose(logits: Any, *rest: Any, out: Any) -> Any:
        last = getattr(out, which).view(-1)[-1:]
        before = last.clone()
        with np.errstate(all="ignore"):
            real(logits, *rest, out=out)
        if next(launches) == which_launch:
            last.copy_(before)

    monkeypatch.setattr(proposal, "propose", propose)
    met = draws.meet(ROWS["31-tickets"], partial(draws.launch_few, device="cpu"))
    want = [*draws.expect(["31-tickets"])["31-tickets/ends"]]
    last = sum(draws.FEW[: which_launch + 1]) - 1
    want[last if which == "token" else -1] = draws.POISON if which == "token" else 1
    assert met == want


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


@pytest.mark.soak
def test_every_draw_of_the_supports_of_a_cpu() -> None:
    """All 2^24, a minute."""
    found = draws.observe_reference(list(suite.ON_CPU))
    assert differences(found.values, draws.expect(list(suite.ON_CPU))) == []
    assert found.compared == (ONE + draws.ENDS) * len(suite.ON_CPU)


@pytest.mark.soak
def test_every_boundary_of_all_supports_through_the_kernels(kernels: Arithmetic) -> None:
    for name, logits in ROWS.items():
        supports = allocate(logits[None])
        chosen = boundaries(supports)
        n = len(chosen)
        rows, on = np.broadcast_to(logits, (n, len(logits))), np.ones(n, np.bool_)
        address = (np.full(n, draws.KEY, np.uint64), *draws.addresses(chosen))
        got = kernels.propose(rows, Dtype.FP32, on, *address, TAU)
        want = reference.propose(rows, on, *address, TAU)
        assert digest(*got) == digest(*want), name


@pytest.mark.gpu
def test_every_draw_of_every_support_on_a_gpu() -> None:
    found = draws.observe_cuda(list(ROWS))
    assert differences(found.values, draws.expect(list(ROWS))) == []
    assert found.compared == (ONE + draws.ENDS) * draws.SUPPORTS


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


def test_what_differs_is_named_once() -> None:
    """The first place of a key, a key on one side only, another length, text."""
    one: Values = {"a": [1, 2, 3], "b": [1], "c": "0f", "d": [0]}
    other: Values = {"a": [1, 5, 6], "b": [1, 2], "c": "10", "e": [0]}
    assert differences(one, other) == [
        "a[1] is 2, must be 5",
        "b is 1 integers, must be 2 integers",
        "c is 0f, must be 10",
        "d is 1 integers, must be None",
        "e is None, must be 1 integers",
    ]
    assert differences(one, dict(one)) == []


def test_a_digest_is_of_the_values() -> None:
    """Whatever their width and layout; order and sign count."""
    assert digest(np.array([1, -2], np.int32)) == digest(np.array([1, 9, -2, 9], np.int64)[::2])
    assert digest(np.array([1, 2])) == digest(np.array([1]), np.array([2]))
    assert digest(np.array([1, 2])) != digest(np.array([2, 1]))
    assert digest(np.array([1])) != digest(np.array([-1]))


def test_an_enumeration_in_receipt_form() -> None:
    found = Enumeration(id="x", claim="y", compared=3, values={"k": [1]})
    assert found.plain() == {"claim": "y", "compared": 3, "id": "x", "values": {"k": [1]}}
