"""All 2^24 draws of a support through the real proposal: each token is drawn by exactly its tickets.

Philox is inverted (harness/inversion.py), so the shipped launcher is given the (round, position) whose word is the
wanted draw. Observed: draws of each token of the support, draws outside it (one more if rows differ in support, tickets
or status), places where a larger draw gave a smaller token; the ids and tickets emitted; and the tokens at both ends of
every interval through launches of few rows, each with logits of its own. Expected: those of semantics section 2.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3 import targets
from pp3.harness.exact.enumeration import Enumeration, Values
from pp3.harness.inversion import invert
from pp3.harness.seeds import Seed, integers
from pp3.kernels.reference import OK, ONE, SUPPORT, TAU, Proposal, Supports, allocate, propose, propose_rows

KEY = 0x243F6A8885A308D3
SUPPORTS = 256
THREADS = 8
SHARED = Seed(b"pp3 enumeration of draws")
CHUNK, PART = 1 << 14, 1 << 16  # draws at a time: of the reference, of a search for addresses
ENDS = 2 * SUPPORT
FEW = (22, 4, 3, 2, 1, 1, 2, 3, 4, 22)  # rows of the launches that meet the ends, in turn
POISON = -(1 << 30)
CLAIM = "every draw value through the proposal: counts equal tickets, the map is monotone, nothing outside the support"
Row = npt.NDArray[np.float32]
U64 = npt.NDArray[np.uint64]


def rows() -> list[tuple[str, Row]]:
    """256 rows of logits: every target's, ties, masks, one finite logit, flat, a 31-ticket cell, and hashed ones."""
    found = [
        (f"{name}/row-{row}", logits)
        for name in targets.NAMES
        for row, logits in enumerate(targets.build(name).draft_logits)
    ]
    masked = np.full(64, -np.inf, np.float32)
    nine, one = masked.copy(), masked.copy()
    nine[3:12] = np.linspace(2, -2, 9, dtype=np.float32)
    one[17] = 0.5
    cell = masked[:SUPPORT].copy()
    cell[0], cell[5] = 0.0, np.float32(np.float64(np.float32(TAU)) * math.log(31.5 / ONE))
    found += [
        ("flat", np.zeros(97, np.float32)),
        ("nine-finite", nine),
        ("one-finite", one),
        ("31-tickets", cell),
        ("ties-at-the-border", np.repeat(np.array([3, 1, 0], np.float32), 24)),
        ("ties-everywhere", np.round(hashed("ties", 512, 2.0))),
        ("exactly-32", hashed("exactly", SUPPORT, 2.0)),
        ("steep", hashed("steep", 300, 64.0)),
    ]
    scales = (0.25, 1.0, 2.0, 8.0)
    for number in range(SUPPORTS - len(found)):
        vocab = SUPPORT + int(integers(SHARED, f"vocab-{number}", 1)[0] % 4065)
        found.append((f"hashed-{number}", hashed(f"row-{number}", vocab, scales[number % 4])))
    return found


def hashed(label: str, vocab: int, scale: float) -> Row:
    """A row of bell-shaped logits that no library can change: sums of four 16-bit words, exact in FP32."""
    parts = integers(SHARED, label, vocab).view("<u2").reshape(vocab, 4).astype(np.int64).sum(axis=1)
    row: Row = ((parts - 2 * 65535) / 2.0**15 * scale).astype(np.float32)
    return row


def expect(names: list[str]) -> Values:
    """What must be observed for the supports of these names."""
    wanted = set(names)
    values: Values = {}
    for name, logits in rows():
        if name in wanted:
            ids, tickets = support_of(logits), allocate(logits[None]).tickets[0].tolist()
            running = list(itertools.accumulate(tickets))
            values |= _found(name, [*tickets, 0, 0], ids, tickets)
            values[f"{name}/ends"] = [*(ids[bisect_right(running, draw)] for draw in ends(tickets)), 0]
    return values


def ends(tickets: list[int]) -> list[int]:
    """The first and the last draw value of each member; of one without tickets, the two values beside its place."""
    edges = [0, *itertools.accumulate(tickets)]
    return [
        draw for first, after in itertools.pairwise(edges) for draw in (min(first, edges[-1] - 1), max(after - 1, 0))
    ]


def support_of(logits: Row) -> list[int]:
    """The 32 ids of a row, ascending, by a sort of (value, id) that shares nothing with the allocation."""
    ranked = sorted(range(len(logits)), key=lambda token: (-float(logits[token]), token))
    return sorted(ranked[:SUPPORT])


def observe_reference(names: list[str]) -> Enumeration:
    """Every draw through the NumPy reference."""
    values: Values = {}
    keys = np.full(CHUNK, KEY, np.uint64)
    sampled = np.ones(CHUNK, np.bool_)
    for name, logits in _chosen(names):
        supports = allocate(logits[None])
        head = _draw(supports, sampled[:1], keys[:1], *addresses(np.arange(1)))
        ids, tickets = head.ids[0], head.tickets[0]
        counts, outside, falls, last, mixed = np.zeros(SUPPORT, np.int64), 0, 0, -1, False
        for first in range(0, ONE, CHUNK):
            drawn = _draw(supports, sampled, keys, *addresses(np.arange(first, first + CHUNK)))
            mixed |= _differing(drawn, ids, tickets) > 0
            place = np.searchsorted(ids, drawn.token).clip(max=SUPPORT - 1)
            inside = ids[place] == drawn.token
            counts += np.bincount(place[inside], minlength=SUPPORT)
            outside += int((~inside).sum())
            falls += int((np.diff(drawn.token, prepend=last) < 0).sum())
            last = int(drawn.token[-1])
        values |= _found(name, [*counts.tolist(), outside + mixed, falls], ids.tolist(), tickets.tolist())
        values[f"{name}/ends"] = meet(logits, propose_few)
    return _enumeration(values)


def observe_cuda(names: list[str]) -> Enumeration:
    """Every draw of the named supports through the kernels."""
    values = count_cuda(_chosen(names))
    for name, logits in _chosen(names):
        values[f"{name}/ends"] = meet(logits, partial(launch_few, device="cuda"))
    return _enumeration(values)


def count_cuda(chosen: Iterable[tuple[str, Row]]) -> Values:
    """`count` on a GPU."""
    return count(chosen, "cuda")


def count(chosen: Iterable[tuple[str, Row]], device: str) -> Values:
    """Every draw of rows of logits through the kernels, 2^24 rows a launch: 32 counts, outside, falls; ids; tickets."""
    import torch

    from pp3.kernels import proposal

    place = torch.device(device)
    rounds, positions = _addresses_on(place)
    keys = torch.full((ONE,), KEY, dtype=torch.int64, device=place)
    sampled = torch.ones(ONE, dtype=torch.int32, device=place)
    out = proposal.empty_drafts(ONE, 1, place)
    values: Values = {}
    for name, logits in chosen:
        for buffer in out:
            buffer.fill_(POISON)
        row = torch.tensor(logits, device=place)[None].expand(ONE, -1)
        proposal.propose(row, sampled, keys, rounds, positions, out=out)
        values |= _found(name, *tally(out))
    return values


def tally(out: Any) -> tuple[list[int], list[int], list[int]]:
    """Of drafts [n, 1] in the order of their draws: 32 counts, outside, falls; ids; tickets."""
    import torch

    ids, tickets, token = out.ids[0, 0], out.tickets[0, 0], out.token[:, 0]
    mixed = varies(out.ids) | varies(out.tickets) | (out.status != OK).any()
    falls = (token[1:] < token[:-1]).sum()
    inside = torch.searchsorted(token, ids, right=True) - torch.searchsorted(token, ids)  # if sorted
    found = torch.cat([inside, mixed[None], falls[None], ids, tickets]).tolist()  # one transfer
    counts, one_more, fallen = found[:SUPPORT], found[SUPPORT], found[SUPPORT + 1]
    if fallen:
        counts = [int((token == one).sum()) for one in ids]
    return [*counts, len(token) - sum(counts) + one_more, fallen], found[-2 * SUPPORT : -SUPPORT], found[-SUPPORT:]


def varies(rows: Any) -> Any:
    """Whether some row of int32 [n, 1, 32] is not the row before it; a device's answer."""
    import torch

    pairs = rows.view(torch.int64).view(-1)  # one contiguous comparison of half as many elements
    width = SUPPORT // 2
    return (pairs[width:] != pairs[:-width]).any()


def meet(logits: Row, few: Callable[[Row, U64, U64], Proposal]) -> list[int]:
    """The token at each end, drawn by `few`, and how many rows are not ok or show another support than allocated."""
    supports = allocate(logits[None])
    drawn = few(logits, *addresses(np.array(ends(supports.tickets[0].tolist()))))
    return [*drawn.token.tolist(), _differing(drawn, supports.ids[0], supports.tickets[0])]


def propose_few(logits: Row, rounds: U64, positions: U64) -> Proposal:
    """Drafts at addresses [64] through the reference, FEW rows at a time."""
    found = []
    for part in _launches():
        rows = np.repeat(logits[None], part.stop - part.start, axis=0)
        on, keys = np.ones(len(rows), np.bool_), np.full(len(rows), KEY, np.uint64)
        found.append(propose(rows, on, keys, rounds[part], positions[part]))
    return Proposal(*(np.concatenate(field) for field in zip(*found, strict=True)))


def launch_few(logits: Row, rounds: U64, positions: U64, device: str) -> Proposal:
    """Drafts at addresses [64] through the kernels, FEW rows a launch, each row of logits stored by itself."""
    import torch

    from pp3.kernels import proposal

    place = torch.device(device)
    out = proposal.empty_drafts(ENDS, 1, place)
    for buffer in out:
        buffer.fill_(POISON)
    row, on = torch.tensor(logits, device=place)[None], torch.ones(ENDS, dtype=torch.int32, device=place)
    keys = torch.full((ENDS,), KEY, dtype=torch.int64, device=place)
    where = [torch.from_numpy(part.view(np.int64)).to(place) for part in (rounds, positions)]
    for part in _launches():
        rows = row.repeat(part.stop - part.start, 1)
        drafts = proposal.Drafts(*(buffer[part] for buffer in out))
        proposal.propose(rows, on[part], keys[part], where[0][part], where[1][part], out=drafts)
    status, token, ids, tickets = (buffer.cpu().numpy() for buffer in out)
    return Proposal(status, token[:, 0], ids[:, 0], tickets[:, 0])


def _launches() -> Iterator[slice]:
    """The places of each launch's rows among the ends."""
    return (slice(first, after) for first, after in itertools.pairwise([0, *itertools.accumulate(FEW)]))


def _differing(drawn: Proposal, ids: Any, tickets: Any) -> int:
    """Rows whose status is not ok or whose support is not the given one."""
    differ = (drawn.ids != ids).any(axis=1) | (drawn.tickets != tickets).any(axis=1) | (drawn.status != OK)
    return int(differ.sum())


def size(supports: int) -> int:
    """Draws of so many supports: all of each, and its ends again."""
    return (ONE + ENDS) * supports


def addresses(draws: npt.NDArray[np.int64]) -> tuple[U64, U64]:
    """(round, position) whose first word is each draw [n] above eight bits that must not matter."""
    words = np.zeros((len(draws), 4), np.uint32)
    words[:, 0] = (draws << 8 | (draws * 37 & 0xFF)).astype(np.uint32)
    words[:, 1] = draws.astype(np.uint32)
    return invert(words, KEY)


def _addresses_on(place: Any) -> tuple[Any, Any]:
    """Rounds and positions of every draw in order, as int64 patterns on a device."""
    import torch

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(lambda first: addresses(np.arange(first, first + PART)), range(0, ONE, PART)))
    joined = (np.concatenate(part).view(np.int64) for part in zip(*parts, strict=True))
    rounds, positions = (torch.from_numpy(part).to(place) for part in joined)
    return rounds, positions


def _draw(supports: Supports, sampled: Any, keys: Any, rounds: Any, positions: Any) -> Proposal:
    return propose_rows(supports, np.zeros(len(keys), np.int64), sampled, keys, rounds, positions, TAU)


def _chosen(names: list[str]) -> Iterator[tuple[str, Row]]:
    wanted = set(names)
    return ((name, logits) for name, logits in rows() if name in wanted)


def _found(name: str, counts: list[int], ids: list[int], tickets: list[int]) -> Values:
    return {name: counts, f"{name}/ids": ids, f"{name}/tickets": tickets}


def _enumeration(values: Values) -> Enumeration:
    supports = sum(key.endswith("/ends") for key in values)
    return Enumeration(id="draws", claim=CLAIM, compared=size(supports), values=values)
