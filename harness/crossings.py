"""Crossings: every bridge over one target's tables, stored so that it can be judged again without the device.

The emitted law is exact for any tickets, and some policies never read some of them: so the tables are compared with the
reference's allocation as well.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pp3.harness.bridge import DEPTHS, Bridge, Drawn, Table, bridge
from pp3.harness.errors import VerificationError
from pp3.kernels.reference import allocate
from pp3.targets import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """Both depths, and for each every place of the first invalidated draft."""

    target: str
    law_sha256: str
    ids: list[list[int]]  # [rows, 32] as the device emitted them
    tickets: list[list[int]]
    drawn: list[list[tuple[int, int]]] | None  # token and count of draw values, where they were enumerated
    differing: int  # entries of ids and tickets that are not the reference's
    bridges: tuple[Bridge, ...]

    @property
    def ok(self) -> bool:
        """Whether the tables are the reference's and every bridge stands."""
        return self.differing == 0 and all(crossed.ok for crossed in self.bridges)

    def plain(self) -> dict[str, Any]:
        """Receipt form, with the integers that `rejudge` needs."""
        return {
            "bridges": [crossed.plain() for crossed in self.bridges],
            "differing": self.differing,
            "drawn": None if self.drawn is None else [[list(pair) for pair in row] for row in self.drawn],
            "ids": self.ids,
            "lawSha256": self.law_sha256,
            "ok": self.ok,
            "target": self.target,
            "tickets": self.tickets,
        }


def cross(target: Target, ids: Table, tickets: Table, drawn: Drawn | None = None) -> Crossings:
    """Every bridge of a target over its emitted tables; arguments and errors as `bridge`.

    A round stops at its first invalidated draft: so none, the first, the second and so on are all the patterns.
    """
    bridges = tuple(
        bridge(target, ids, tickets, depth, [j == at for j in range(depth)], drawn)
        for depth in DEPTHS
        for at in range(-1, depth)
    )
    ids, tickets, right = np.asarray(ids), np.asarray(tickets), allocate(target.draft_logits)
    return Crossings(
        target=target.name,
        law_sha256=target.digest(),
        ids=ids.tolist(),
        tickets=tickets.tolist(),
        drawn=None if drawn is None else [sorted(row.items()) for row in drawn],
        differing=int((ids != right.ids).sum() + (tickets != right.tickets).sum()),
        bridges=bridges,
    )


def rejudge(stored: dict[str, Any], target: Target) -> Crossings:
    """The crossings of the integers in a receipt form. VerificationError at the first that recomputes to another."""
    drawn = None if stored["drawn"] is None else [dict(row) for row in stored["drawn"]]
    mine = cross(target, stored["ids"], stored["tickets"], drawn)
    _compare("survey", mine.plain(), stored)
    return mine


def _compare(path: str, mine: Any, said: Any) -> None:
    """Walk two plain values to the first difference. Types count: 1 is not true."""
    if type(mine) is not type(said):
        raise VerificationError(f"{path} recomputes to {mine!r}, stored is {said!r}")
    if isinstance(mine, dict):
        if mine.keys() != said.keys():
            raise VerificationError(f"{path} has the keys {sorted(mine)}, stored are {sorted(said)}")
        for key, value in mine.items():
            _compare(f"{path}.{key}", value, said[key])
    elif isinstance(mine, list):
        if len(mine) != len(said):
            raise VerificationError(f"{path} has {len(mine)} entries, stored are {len(said)}")
        for number, (one, other) in enumerate(zip(mine, said, strict=True)):
            _compare(f"{path}[{number}]", one, other)
    elif mine != said:
        raise VerificationError(f"{path} recomputes to {mine!r}, stored is {said!r}")
