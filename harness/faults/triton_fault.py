"""A fault in the text of a Triton kernel: which words of which file become which, and who must see it."""

from collections.abc import Callable
from dataclasses import dataclass

HOUSE = "none; a slip of the pen in this file"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFault:
    """`old`, which stands once in pp3/kernels/`file`.py, becomes `new`.

    witness: the check that must catch it; one of the trials does so on `targets`, at up to a million requests of each
    law. seen: the check of few rows that must catch it (triton_text.SEEN_BY).
    """

    id: str
    about: str
    report: str  # where the like of it was seen
    file: str
    old: str
    new: str
    witness: str
    targets: tuple[str, ...]
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextControl:
    """The unchanged text, loaded as the faults are: it must pass, on these targets."""

    id: str
    about: str
    targets: tuple[str, ...]


CONTROL = TextControl(
    id="C0/text", about="The unchanged text of the kernels, loaded as text faults are.", targets=("near", "far", "void")
)


def of_file(file: str) -> Callable[..., TextFault]:
    """A maker of the faults of one file."""

    def fault(
        id: str,
        about: str,
        old: str,
        new: str,
        witness: str,
        report: str = HOUSE,
        targets: tuple[str, ...] = ("near", "far"),
        seen: str = "bits",
    ) -> TextFault:
        return TextFault(
            id=id, about=about, report=report, file=file, old=old, new=new, witness=witness, targets=targets, seen=seen
        )

    return fault
