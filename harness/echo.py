"""A value as an error message repeats it: at most about 60 characters, whatever was given."""

import math
import reprlib
from typing import Any

LONGEST = 60
DIGITS = 20  # shown of a number that is longer


class _Short(reprlib.Repr):
    """repr without depth, and with numbers of more digits than `str` takes (4,300)."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxdict = self.maxstring = LONGEST
        self.maxlevel = 4

    def repr_int(self, x: int, level: int) -> str:
        """A long one by its first digits and the number of all."""
        size = abs(x)
        digits = int((size.bit_length() - 1) * math.log10(2)) + 1
        digits += size >= 10**digits
        if digits <= LONGEST:
            return repr(x)
        return f"{'-' * (x < 0)}{size // 10 ** (digits - DIGITS)}... ({digits:,} digits)"


def echo(value: Any) -> str:
    """repr, cut where it is long. Never raises for what TOML or a command line can hold."""
    text = _Short().repr(value)
    return text if len(text) <= LONGEST or isinstance(value, int) else f"{text[: LONGEST - 3]}..."
