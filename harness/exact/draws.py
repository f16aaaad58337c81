"""All 2^24 draws of a support through the real proposal: each token is drawn by exactly its tickets.

Philox is inverted (harness/inversion.py), so the shipped launcher is given the (round, position) whose word is the
wanted draw. Observed: draws of each token of the support, draws outside it, places where a larger draw gave a smaller
token. Expected: the tickets of semantics section 2.
"""

import math
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from pp3 import targets
from pp3.harness.exact.enumeration import Enumeration, Values
from pp3.harness.inversion import invert
from pp3.harness.seeds import Seed, integers
from pp3.kernels.reference import ONE, SUPPORT, TAU, Proposal, Supports, allocate, propose_rows

KEY = 0x243F6A8885A308D3
SUPPORTS = 256
THREADS = 8
SHARED = Seed(b"pp3 enumeration of draws")
CHUNK = 1 << 19
CLAIM = "every draw value through the proposal: counts equal tickets, the map is monotone, nothing outside the support"
Row = npt.NDArray[np.float32]


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
            values[name] = [*allocate(logits[None]).tickets[0].tolist(), 0, 0]
            values[f"{name}/ids"] = support_of(logits)
    return values


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
        ids = supports.ids[0]
        counts, outside, falls, last = np.zeros(SUPPORT, np.int64), 0, 0, -1
        for first in range(0, ONE, CHUNK):
            rounds, positions = addresses(np.arange(first, first + CHUNK))
            drawn = _draw(supports, sampled, keys, rounds, positions)
            ids, token = drawn.ids[0], drawn.token
            place = np.searchsorted(ids, token).clip(max=SUPPORT - 1)
            inside = ids[place] == token
            counts += np.bincount(place[inside], minlength=SUPPORT)
            outside += int((~inside).sum())
            falls += int((np.diff(token, prepend=last) < 0).sum())
            last = int(token[-1])
        values[name] = [*counts.tolist(), outside, falls]
        values[f"{name}/ids"] = ids.tolist()
    return _enumeration(values)


def observe_cuda(names: list[str]) -> Enumeration:
    """Every draw of the named supports through the kernels."""
    return _enumeration(count_cuda(_chosen(names)))


def count_cuda(chosen: Iterable[tuple[str, Row]]) -> Values:
    """Every draw of rows of logits through the kernels, 2^24 rows a launch: 32 counts, outside, falls."""
    import torch

    from pp3.kernels import proposal

    device = torch.device("cuda")
    rounds, positions = _addresses_on(device)
    keys = torch.full((ONE,), KEY, dtype=torch.int64, device=device)
    sampled = torch.ones(ONE, dtype=torch.int32, device=device)
    out = proposal.empty_drafts(ONE, 1, device)
    values: Values = {}
    for name, logits in chosen:
        for buffer in out:
            buffer.fill_(-(1 << 30))
        row = torch.tensor(logits, device=device)[None].expand(ONE, -1)
        proposal.propose(row, sampled, keys, rounds, positions, out=out)
        ids, token = out.ids[0, 0], out.token[:, 0]
        spread = (out.ids != ids).any() | (out.tickets != out.tickets[0]).any() | (out.status != 0).any()
        falls = (token[1:] < token[:-1]).sum()
        if int(falls):
            counts = [int((token == one).sum()) for one in ids]
        else:  # sorted: where each token begins and ends
            counts = (torch.searchsorted(token, ids, right=True) - torch.searchsorted(token, ids)).tolist()
        values[name] = [*counts, ONE - sum(counts) + int(spread), int(falls)]
        values[f"{name}/ids"] = ids.tolist()
    return values


def size(supports: int) -> int:
    """Draws of so many supports."""
    return ONE * supports


def addresses(draws: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """(round, position) whose first word is each draw [n] above eight bits that must not matter."""
    words = np.zeros((len(draws), 4), np.uint32)
    words[:, 0] = (draws << 8 | (draws * 37 & 0xFF)).astype(np.uint32)
    words[:, 1] = draws.astype(np.uint32)
    return invert(words, KEY)


def _addresses_on(device: Any) -> tuple[Any, Any]:
    import torch

    with ThreadPoolExecutor(THREADS) as pool:
        parts = list(pool.map(lambda first: addresses(np.arange(first, first + CHUNK)), range(0, ONE, CHUNK)))
    joined = (np.concatenate(part).view(np.int64) for part in zip(*parts, strict=True))
    rounds, positions = (torch.from_numpy(part).to(device) for part in joined)
    return rounds, positions


def _draw(supports: Supports, sampled: Any, keys: Any, rounds: Any, positions: Any) -> Proposal:
    return propose_rows(supports, np.zeros(len(keys), np.int64), sampled, keys, rounds, positions, TAU)


def _chosen(names: list[str]) -> Iterator[tuple[str, Row]]:
    wanted = set(names)
    return ((name, logits) for name, logits in rows() if name in wanted)


def _enumeration(values: Values) -> Enumeration:
    return Enumeration(id="draws", claim=CLAIM, compared=size(len(values) // 2), values=values)
