"""`make bench` without a clock: multiples of the loop, outcomes, and a baseline that names what is timed."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from pp3.harness.errors import Exit

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    """tests/benchmark.py as a module."""
    spec = importlib.util.spec_from_file_location("benchmark", HERE / "benchmark.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_slower_machine_gives_the_same_multiples(benchmark: ModuleType) -> None:
    """Work and loop take turns on one clock; the first turn is not counted."""
    for speed in (1, 7):
        now = [0]

        def spend(ticks: int, now: list[int] = now, speed: int = speed) -> None:
            now[0] += ticks * speed

        found = benchmark.measure({"a": lambda: spend(50)}, lambda: spend(10), lambda: now[0], 3)  # noqa: B023
        assert found == {"a": [(50 * speed, 10 * speed)] * 3}
        [row] = benchmark.rows_of(found, {"a": 5.0})
        assert (row.ratio, row.outcome) == (5.0, "ok")


@pytest.mark.parametrize(
    ("stored", "outcome", "code"),
    [(3.0, "slower", Exit.NEGATIVE), (5.0, "ok", Exit.OK), (8.0, "faster", Exit.OK), (None, "new", Exit.INCONCLUSIVE)],
)
def test_outcomes(benchmark: ModuleType, stored: float | None, outcome: str, code: Exit) -> None:
    """Beyond the limit either way; nothing stored is not ok."""
    rows = benchmark.rows_of({"a": [(50, 10), (49, 10), (90, 10)]}, {"a": stored} if stored else {})
    assert [row.outcome for row in rows] == [outcome]
    assert benchmark.code_of(rows) == code


def test_the_baseline_names_what_is_timed(benchmark: ModuleType) -> None:
    """Each work has a stored multiple, and no other is stored."""
    stored = json.loads(benchmark.BASELINE.read_text("utf-8"))
    assert list(stored) == list(benchmark.works())
    assert all(value > 0 for value in stored.values())
