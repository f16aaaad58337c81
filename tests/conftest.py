"""Seeds from node ids, the interpreter for CPU runs, and skips that are named or fail the run."""

import hashlib
import importlib.util
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from pp3.harness.campaign import Campaign
    from pp3.harness.run import Measured
    from pp3.harness.seeds import Seed

ON_GPU = os.environ.get("PP3_TEST_GPU") == "1"
if not ON_GPU:
    os.environ["TRITON_INTERPRET"] = "1"  # before any kernel is decorated

ALLOWED = Path(__file__).parent / "allowed_skips.txt"
NOT_RUN_HERE = ("gpu", "soak")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A generator seeded by the test's id: order and selection never change the data."""
    return np.random.default_rng(int.from_bytes(hashlib.sha256(request.node.nodeid.encode()).digest()[:8], "little"))


@pytest.fixture(scope="session")
def measure() -> "Callable[[Campaign, Seed], Measured]":
    """Run a campaign on the reference, in process; what is said of the kernels is made by hand."""
    from pp3.harness import run
    from pp3.harness.backends import Backend
    from pp3.harness.evidence import kernels
    from pp3.harness.samplers.reference import ReferenceSampler

    def measure(campaign: "Campaign", seed: "Seed") -> "Measured":
        sampler = ReferenceSampler()
        measured = run.Measured(sampler=sampler.describe())
        run._campaign(campaign, seed, sampler, measured, lambda stage, done, total: None)
        run._time(campaign, seed, sampler, measured, 8, Backend.REFERENCE)
        measured.kernels = {
            "bits": [
                {"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": rows}
                for name, rows in kernels.expected_bits(campaign, False)
            ],
            "conform": [
                {"file": name, "passed": total, "sha256": sha256, "total": total}
                for name, sha256, total in kernels.expected_answers()
            ],
            "identity": {"backend": "interpreter"},
        }
        return measured

    return measure


@pytest.fixture(scope="session")
def receipt_of(measure: "Callable[[Campaign, Seed], Measured]") -> "Callable[..., Path]":
    """Run a campaign as `measure` does, judge it and write its receipt into a folder; counter 7 by default."""
    from pp3.harness.campaign import plan_sha256
    from pp3.harness.evidence import receipt
    from pp3.harness.seeds import Seed
    from pp3.harness.verdict import conclude

    def receipt_of(campaign: "Campaign", folder: Path, counter: int = 7) -> Path:
        started, seed = datetime.now(UTC), Seed.of(plan_sha256(campaign), counter)
        measured = measure(campaign, seed)
        who = measured.sampler
        judgement = conclude(
            campaign,
            measured.counts,
            measured.first,
            measured.breaches,
            measured.pairs,
            measured.kernels,
            {"name": who.name, "version": who.version, "backend": who.backend},
        )
        return receipt.write(receipt.build(campaign, seed, counter, "given", started, measured, judgement), folder)

    return receipt_of


@pytest.fixture(scope="session")
def real_receipt(receipt_of: "Callable[[Campaign, Path], Path]", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The receipt of one run of the default campaign."""
    from pp3.harness.campaign import load

    return receipt_of(load(None), tmp_path_factory.mktemp("receipts"))


@pytest.fixture(scope="session")
def calibrated() -> ModuleType:
    """tests/calibrated.py as a module: a small calibration, run once."""
    return _module("calibrated")


@pytest.fixture(scope="session")
def probed() -> ModuleType:
    """tests/probed.py as a module: the receipt of a probe whose times are given."""
    return _module("probed")


@pytest.fixture(scope="session")
def quick_pieces() -> ModuleType:
    """tests/quick_pieces.py as a module: what stands in for the interpreter where pieces are run often."""
    return _module("quick_pieces")


def _module(name: str) -> ModuleType:
    """A file of this folder."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SkipPolicy:
    """Counts what was not run here, and fails a run with a skip that is not listed (or, on a GPU, with any)."""

    def __init__(self) -> None:
        lines = ALLOWED.read_text("utf-8").splitlines()
        self.allowed = {line.split(" | ")[0] for line in lines if line and not line.startswith("#")}
        self.refused: list[str] = []
        self.deselected: dict[str, int] = {}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count by the mark that keeps an item out."""
        for item in items:
            mark = next((name for name in NOT_RUN_HERE if item.get_closest_marker(name)), "by choice")
            self.deselected[mark] = self.deselected.get(mark, 0) + 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skip that nothing allows."""
        if report.skipped and (ON_GPU or report.nodeid.split("[")[0] not in self.allowed):
            self.refused.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A refused skip is a failure; one of several processes says what it left out."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["deselected"] = self.deselected
        if self.refused and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take over what a process left out: each collects all tests."""
        self.deselected |= getattr(node, "workeroutput", {}).get("deselected", {})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The closing counts."""
        for nodeid in self.refused:
            terminalreporter.write_line(
                f"SKIP NOT ALLOWED {nodeid}: list it, with a reason, in {ALLOWED.name}", red=True
            )
        passed, failed, skipped = (len(terminalreporter.getreports(kind)) for kind in ("passed", "failed", "skipped"))
        rest = ", ".join(f"{name} {count}" for name, count in sorted(self.deselected.items())) or "none"
        terminalreporter.write_line(f"not run here: {sum(self.deselected.values())} ({rest})")
        terminalreporter.write_line(f"{passed} passed, {failed} failed, {skipped} skipped")


def pytest_configure(config: pytest.Config) -> None:
    """Install the policy."""
    config.pluginmanager.register(SkipPolicy())
