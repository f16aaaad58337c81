"""One enumeration: integers observed on a device beside the integers that must be there.

Observed integers are stored in a receipt; the expected ones are computed again by whoever verifies it, from names and
formulas, on the CPU. A digest stands for integers too many to store.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Values = dict[str, list[int] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enumeration:
    """Everything one enumeration found on a device."""

    id: str
    claim: str
    compared: int  # draws, edges, rounds or values met
    values: Values

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {"claim": self.claim, "compared": self.compared, "id": self.id, "values": self.values}


def differences(observed: Values, expected: Values) -> list[str]:
    """Each key whose integers differ, with the first place; a key on one side only differs too."""
    found = []
    for key in sorted(observed.keys() | expected.keys()):
        got, want = observed.get(key), expected.get(key)
        if got == want:
            continue
        if isinstance(got, list) and isinstance(want, list) and len(got) == len(want):
            at = next(place for place, (one, other) in enumerate(zip(got, want, strict=True)) if one != other)
            found.append(f"{key}[{at}] is {got[at]}, must be {want[at]}")
        else:
            found.append(f"{key} is {_short(got)}, must be {_short(want)}")
    return found


def digest(*arrays: npt.NDArray[Any]) -> str:
    """SHA-256 over the little-endian int64 values of arrays, in order."""
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array, "<i8").tobytes())
    return whole.hexdigest()


def _short(value: list[int] | str | None) -> str:
    return f"{len(value)} integers" if isinstance(value, list) else str(value)
