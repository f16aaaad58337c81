"""Count what neighbouring requests have in common: the part of a tally that looks at more than one request at once.

First tokens and lengths are kept until a window is full, so that the counts do not depend on the size of a launch. A
pair of lag l is made of places i and i + l of a window where i // l is even.
"""

from typing import Any

import numpy as np

from pp3.harness.cells import Cell, Event
from pp3.harness.dependence import BUCKETS, CARRIED, ROUNDS, WINDOW

NONE = -1  # token or length of a request that does not count
FACTOR = 6364136223846793005  # of the hash of a stretch: Knuth's, modulo 2^64
REQUESTS = "requests-"


class Neighbours:
    """Pairs, matches and repeats of one target and depth, as codes for Tally."""

    def __init__(self, cells: list[Cell], classes: int, depth: int) -> None:
        self.classes, self.depth = classes, depth
        self.matches: dict[int, list[int]] = {}
        self.rounds = dict.fromkeys(ROUNDS, -1)
        self.pairs, self.lengths = [-1] * classes, [-1] * classes
        self.maps: list[tuple[Any, Any] | None] = [None] * classes
        self.repeat = self.stretch = -1
        for number, cell in enumerate(cells):
            name, _, place = cell.pattern.partition("/class-")
            if cell.event is Event.MATCH and name.startswith(REQUESTS):
                self.matches.setdefault(int(name.removeprefix(REQUESTS)), [-1] * classes)[int(place)] = number
            elif cell.event is Event.ROUND:
                self.rounds[name] = number
            elif cell.event is Event.PAIR:
                self.pairs[int(place)], self.maps[int(place)] = number, (cell.maps[0], cell.maps[1])
            elif cell.event is Event.LENGTH_PAIR:
                self.lengths[int(place)] = number
            elif cell.event is Event.REPEAT:
                self.repeat, self.stretch = number, int(cell.pattern.removeprefix("stretches-of-"))
        self.wanted = bool(self.matches) or max(self.pairs + self.lengths) >= 0 or self.repeat >= 0
        self._tokens: list[Any] = []
        self._kept: list[Any] = []
        self._held = self._first = 0
        self._before: dict[str, Any] = {}
        self._there: dict[Any, Any] = {}

    def add(self, xp: Any, first: int, tokens: Any, kept: Any) -> list[tuple[Any, Any, Any]]:
        """Take in requests from `first` on, tokens and lengths [n]; (mask, cell, code) of the windows they fill."""
        if not self.wanted:
            return []
        if not self._held:
            self._first = first
        self._tokens.append(tokens)
        self._kept.append(kept)
        self._held += len(tokens)
        return self._emit(xp, False) if self._held >= WINDOW else []

    def rest(self, xp: Any) -> list[tuple[Any, Any, Any]]:
        """The same of a last window that is not full."""
        return self._emit(xp, True) if self._held else []

    def _emit(self, xp: Any, last: bool) -> list[tuple[Any, Any, Any]]:
        tokens, kept = xp.concatenate(self._tokens), xp.concatenate(self._kept)
        windows = self._held // WINDOW
        done, found = windows * WINDOW, []
        if windows:
            shape = (windows, WINDOW)
            found += self._windows(xp, self._first, tokens[:done].reshape(shape), kept[:done].reshape(shape))
        if last and done < self._held:
            found += self._windows(xp, self._first + done, tokens[None, done:], kept[None, done:])
            done = self._held
        self._tokens, self._kept = [tokens[done:]], [kept[done:]]
        self._held, self._first = self._held - done, self._first + done
        return found

    def _windows(self, xp: Any, first: int, tokens: Any, kept: Any) -> list[tuple[Any, Any, Any]]:
        """Everything of windows side by side [windows, size], whose first request has this number."""
        there = self._tables(xp, tokens)
        place = xp.arange(tokens.shape[0] * tokens.shape[1], **where(tokens)).reshape(tokens.shape)
        kind = (place + first) % self.classes
        found = []
        for lag in self.matches:
            one, other, k = _pairs(xp, tokens, lag), _pairs(xp, tokens, lag, 1), _pairs(xp, kind, lag)
            both = (one >= 0) & (other >= 0)
            found.append((both, there[lag][k], (one == other) * 1))
        one, other, k = _pairs(xp, tokens, 1), _pairs(xp, tokens, 1, 1), _pairs(xp, kind, 1)
        if "maps" in there:
            both = (one >= 0) & (other >= 0) & (there["pairs"][k] >= 0)
            maps = there["maps"]
            code = maps[0][k, xp.where(both, one, 0)] * BUCKETS + maps[1][k, xp.where(both, other, 0)]
            found.append((both, there["pairs"][k], code))
        if max(self.lengths) >= 0:
            one, other = _pairs(xp, kept, 1), _pairs(xp, kept, 1, 1)
            found.append(((one >= 0) & (other >= 0), there["lengths"][k], one * (self.depth + 1) + other))
        if 0 < self.stretch <= tokens.shape[1]:
            found.append(self._repeats(xp, tokens))
        return found

    def _tables(self, xp: Any, like: Any) -> dict[Any, Any]:
        """What does not change, put where the tokens are once."""
        if not self._there:
            held: dict[Any, Any] = {**self.matches, "pairs": self.pairs, "lengths": self.lengths}
            if any(maps for maps in self.maps):
                none = (np.zeros_like(next(maps for maps in self.maps if maps)[0]),) * 2
                held["maps"] = np.stack([np.stack(maps or none) for maps in self.maps], axis=1)
            self._there = {name: xp.asarray(values, **where(like)) for name, values in held.items()}
        return self._there

    def _repeats(self, xp: Any, tokens: Any) -> tuple[Any, Any, Any]:
        """Of stretches side by side, whether each occurs at any other place of its window."""
        windows, places = tokens.shape[0], tokens.shape[1] - self.stretch + 1
        code = xp.zeros((windows, places), dtype=xp.int64, **where(tokens))
        code = code + xp.arange(windows, **where(tokens))[:, None]
        for ahead in range(self.stretch):
            code = code * FACTOR + tokens[:, ahead : ahead + places] + 2  # modulo 2^64
        again = _twice(xp, code.reshape(-1)).reshape(windows, places)[:, :: self.stretch] * 1
        return again >= 0, again * 0 + self.repeat, again

    def rounds_of(self, xp: Any, batch: Any, tokens: Any, second: Any) -> list[tuple[Any, Any, Any]]:
        """Matches of one row and of one slot in two launches, and of neighbouring identities in one."""
        if self.rounds["rows"] < 0 or not hasattr(batch.target, "tables"):
            return []
        found = []
        before, now = self._before, {"rows": tokens, "slots": self._by_slot(xp, batch, tokens)}
        if before and len(before["rows"]) == len(tokens):
            now[CARRIED] = now["slots"]
            for name, one in before.items():
                both = (one >= 0) & (now[name] >= 0)
                found.append((both, one * 0 + self.rounds[name], (one == now[name]) * 1))
            self._before = {}
        else:
            carried = {} if self.rounds[CARRIED] < 0 else {CARRIED: self._by_slot(xp, batch, second)}
            self._before = now | carried
        if hasattr(type(batch.tensors), "identities"):
            order = xp.argsort(_put(xp, batch.tensors.identities, tokens))
            one, other = _pairs(xp, tokens[order], 1), _pairs(xp, tokens[order], 1, 1)
            found.append(((one >= 0) & (other >= 0), one * 0 + self.rounds["identities"], (one == other) * 1))
        return found

    def _by_slot(self, xp: Any, batch: Any, tokens: Any) -> Any:
        found = xp.full((batch.tensors.num_slots,), NONE, **where(tokens))
        found[_put(xp, batch.tensors.slots, tokens)] = tokens
        return found


def pairs_in(requests: int, lag: int) -> int:
    """Pairs of this lag among so many requests, window by window."""
    whole, rest = divmod(requests, WINDOW)
    return whole * _in_window(WINDOW, lag) + _in_window(rest, lag)


def stretches_in(requests: int, length: int) -> int:
    """Stretches side by side among so many requests, window by window."""
    whole, rest = divmod(requests, WINDOW)
    return whole * (WINDOW // length) + rest // length


def _in_window(size: int, lag: int) -> int:
    return size // (2 * lag) * lag + max(0, size % (2 * lag) - lag)


def _pairs(xp: Any, values: Any, lag: int, which: int = 0) -> Any:
    """The first or second of every pair of windows [..., size]."""
    size = values.shape[-1]
    whole = size // (2 * lag) * 2 * lag
    found = values[..., :whole].reshape(*values.shape[:-1], -1, 2, lag)[..., which, :]
    found = found.reshape(*values.shape[:-1], whole // 2)
    extra = size - whole - lag
    if extra <= 0:
        return found
    start = whole + which * lag
    return xp.concatenate([found, values[..., start : start + extra]], axis=-1)


def _twice(xp: Any, codes: Any) -> Any:
    """Whether each of the codes [n] occurs at another place too. On a GPU nothing waits for it."""
    order = xp.argsort(codes)
    equal = xp.zeros((len(codes) + 1,), dtype=xp.bool if xp is not np else np.bool_, **where(codes))
    equal[1:-1] = codes[order[1:]] == codes[order[:-1]]
    found = xp.empty_like(equal[1:])
    found[order] = equal[1:] | equal[:-1]
    return found


def where(like: Any) -> dict[str, Any]:
    """Keywords that make an array where this one is."""
    return {} if isinstance(like, np.ndarray) else {"device": like.device}


def _put(xp: Any, values: Any, like: Any) -> Any:
    return xp.asarray(values, **where(like))
