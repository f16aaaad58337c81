"""docs/integration.md names every barrier, refusal and cause, and says nothing of what is not there."""

import re
from pathlib import Path

from pp3.harness.transport.admission import ENGINE_SWITCH, WORKER_SWITCH, Barrier
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.layout import layout_of
from pp3.harness.transport.pages import Cause
from pp3.harness.transport.refusal import Refusal

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "integration.md").read_text("utf-8")


def test_every_barrier_is_in_the_table() -> None:
    """In the words of the refusal."""
    assert [barrier for barrier in Barrier if f"| {barrier.value} |" not in TEXT] == []


def test_every_refusal_is_listed_in_its_order() -> None:
    """And no other."""
    start, end = TEXT.index("## The wire"), TEXT.index("Where the text leaves a choice")
    listed = re.findall(r"`([a-z]+(?:-[a-z0-9]+)*)`", TEXT[start:end])
    assert listed == [code.value for code in Refusal]


def test_every_cause_is_in_the_table() -> None:
    """And no other."""
    start = TEXT.index("| what happens | cause |")
    assert re.findall(r"\| `([A-Z_]+)`", TEXT[start:]) == [cause.name for cause in Cause]


def test_switches_and_sizes() -> None:
    """As the code has them."""
    assert TEXT.count(f"`{WORKER_SWITCH}`") == TEXT.count(f"`{ENGINE_SWITCH}`") == 1
    assert f"{layout_of(4, 5, Mode.SAMPLED).size:,} bytes for four rows of depth 5" in TEXT
    assert f"{layout_of(4, 5, Mode.UNSAMPLED).size} in mode 0" in TEXT
