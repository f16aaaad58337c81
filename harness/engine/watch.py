"""How far a run of an engine has come: a bar on a terminal and, where a folder keeps its pieces, a status for anyone.

Progress is counted in tokens: those of pieces that have ended, and those that the answers of the others are to have.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from pp3.harness.engine.asks import Piece
from pp3.harness.engine.tally import Found
from pp3.harness.operations.campaign import ended, terminated
from pp3.harness.operations.folder import Folder
from pp3.harness.operations.status import State, Status
from pp3.harness.progress import Bar

WHOLE = "1/1"  # an engine's pieces are not shared out


class Watch:
    """Tells of one start. Entered, it ends the status as the start ends, and takes SIGTERM for Ctrl-C."""

    def __init__(self, folder: Folder | None, attempt: int, pieces: Sequence[Piece]) -> None:
        self.asked: dict[str, int] = {}  # requests by condition
        self.planned: dict[str, int] = {}  # tokens by condition
        for piece in pieces:
            name = piece.condition.name
            self.asked[name] = self.asked.get(name, 0) + piece.asks
            self.planned[name] = self.planned.get(name, 0) + planned(piece)
        self.done = dict.fromkeys(self.asked, 0)
        self.running: dict[str, int] = {}  # tokens of a piece that has not ended, by its condition
        self.bar, self.stack, self.status = Bar(), ExitStack(), None
        if folder is not None:
            self.status = Status(
                folder=folder.path, attempt=attempt, shard=WHOLE, cells=self.planned, pieces=len(pieces), unit="tokens"
            )

    def begin(self, there: Sequence[tuple[Piece, Found]]) -> None:
        """What earlier starts have left."""
        for piece, found in there:
            self._count(piece, found)
        if self.status is not None:
            self.status.before = sum(self.status.done.values())
            self.status.write()
            self.status.tell("started", {"pieces": self.status.pieces, "there": len(there)})

    def said(self, piece: Piece, answers: int) -> None:
        """So many answers of a piece have come."""
        name = piece.condition.name
        self.bar.update(name, min(self.done[name] + answers, self.asked[name]), self.asked[name])
        if self.status is not None:
            now = min(planned(piece), answers * piece.condition.length)
            self.status.reach(name, now - self.running.get(name, 0))
            self.running[name] = now

    def took(self, piece: Piece, found: Found) -> None:
        """A piece has ended."""
        self._count(piece, found)
        if self.status is not None:
            said = {"piece": piece.name, "tokens": found.tokens}
            self.status.tell("piece", said | ({"replaced": found.replaced} if any(found.replaced.values()) else {}))

    def _count(self, piece: Piece, found: Found) -> None:
        name = piece.condition.name
        self.done[name] += piece.asks
        self.bar.update(name, self.done[name], self.asked[name])
        if self.status is not None:
            self.planned[name] += found.tokens - planned(piece)
            self.status.add(name, found.tokens - self.running.pop(name, 0))

    def __enter__(self) -> Self:
        if self.status is not None:
            self.stack.enter_context(ended(self.status))
            self.stack.enter_context(terminated())
        self.stack.enter_context(self.bar)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self.status is not None:
            self.status.end(State.DONE)
        self.stack.__exit__(kind, error, trace)


def planned(piece: Piece) -> int:
    """Tokens that the answers of a piece have if nothing ends them before their length."""
    return piece.asks * piece.condition.length
