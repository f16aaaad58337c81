"""The probe on a GPU: graphs are captured and counted, our bits hold in what was timed, a receipt verifies.

Run by `make test-gpu`.
"""

from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.evidence.receipt import read
from pp3.harness.evidence.verify import verify
from pp3.harness.probe import plan, run
from pp3.harness.probe.floor import Floor
from pp3.harness.probe.plan import FLOORS, OURS, Cache, Case, Mode, Part
from pp3.harness.probe.timing import Contestant, Gpu, Method, measure

pytestmark = pytest.mark.gpu


def test_a_graph_has_as_many_launches_as_a_round(tmp_path: Path) -> None:
    """And each waits for the one before, with programmatic dependent launch too."""
    clock = Gpu()
    for name in ("plain", "dependent"):
        empty = Floor(3, "cuda")
        one = clock.prepare(Contestant(name=name, step=getattr(empty, name), check=lambda _: ""), 1, 4)
        assert (one.method, one.rounds, one.launches) == (Method.GRAPH, 4, 3)
        check = empty.checked()
        measure(clock, [one], 5, cold=True)
        assert check(4 * (plan.WARMUPS + 5)) == ""


@pytest.mark.parametrize("cache", Cache)
def test_a_small_case_is_timed_and_its_bits_hold(cache: Cache) -> None:
    """Ours as a graph of ten rounds, the floors with as many launches."""
    case = Case(part=Part.SELECTOR, vocab=4097, depth=4, batch=3, cache=cache)
    seen = run.Observed()
    run.time_case(case, run.Maker().work(case, [case]), Gpu(), 5, seen)
    assert [row["mismatches"] for row in seen.bits] == [0, 0]
    timings = {one["id"]: one for one in seen.cases[0]["timings"]}
    assert set(FLOORS) <= set(timings)
    assert len({timings[name]["launches"] for name in (*FLOORS, OURS)}) == 1
    assert timings[OURS]["rounds"] == plan.ROUNDS


def test_the_quick_probe_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the command to a receipt that verifies, and a page beside it."""
    assert cli.run(["probe", "--quick", "--out", str(tmp_path / "out")]) == Exit.OK
    assert capsys.readouterr().out.startswith("PROBED: ")
    [path] = (tmp_path / "out").glob("*.json")
    content, statement = read(path)
    assert verify(path, content).ok
    assert [row["id"] for row in statement["predicate"]["cases"]] == [case.id for case in plan.cases(Mode.QUICK)]
    assert path.with_suffix(".html").is_file()
