"""Steps of a verification, of a receipt of any kind: one that holds, one that raises, and the verdict's."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from pp3.harness.errors import PP3Error, VerificationError
from pp3.harness.evidence.rows import BUDGET, budget
from pp3.harness.evidence.verified import Step

T = TypeVar("T")


class Concluded(Protocol):
    """What the integers of a receipt come to."""

    @property
    def verdict(self) -> Any:
        """A string of an enum."""

    @property
    def reasons(self) -> list[str]:
        """What led to it."""

    @property
    def sentence(self) -> str:
        """What is said of it."""


def ok(name: str, detail: str) -> Step:
    """A step that holds."""
    return Step(name=name, outcome="ok", detail=detail)


def at(step: str, function: Callable[..., T], *arguments: Any) -> T:
    """Name the step in the error of a function that raises, for values no honest receipt holds too."""
    try:
        return function(*arguments)
    except PP3Error as error:
        said = str(error)
        raise VerificationError(said if said.startswith(f"{step}: ") else f"{step}: {said}") from None
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise VerificationError(f"{step}: {type(error).__name__}: {error}") from None


def spent(alpha: float, weights: Mapping[str, Any], mine: Iterable[Any], said: list[dict[str, Any]]) -> Step:
    """The step of the error budget that a plan divides: shares as the plan spells them."""
    shares = {family: float(share) for family, share in weights.items()}
    return ok(BUDGET, at(BUDGET, budget, alpha, shares, mine, said))


def same_verdict(mine: Concluded, predicate: dict[str, Any]) -> Step:
    """The step of the verdict. VerificationError where it, its reasons or its sentence come to another."""
    for name, recomputed in (("verdict", mine.verdict.value), ("reasons", mine.reasons), ("sentence", mine.sentence)):
        if recomputed != predicate[name]:
            raise VerificationError(
                f"verdict: {name} recomputes to {recomputed!r}, the receipt says {predicate[name]!r}"
            )
    return ok("verdict", mine.verdict.value)


def each(
    names: Iterable[str], found: Iterator[tuple[str, str, Concluded | None]], said: dict[str, Any]
) -> Iterator[Step]:
    """A step for each name, from name, detail and, of the last, what the integers come to."""
    for name in names:
        _, detail, concluded = at(name, next, found)
        if concluded is not None:
            same_verdict(concluded, said)
            detail = detail or concluded.verdict.value
        yield ok(name, detail)
