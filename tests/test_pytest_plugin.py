"""The fixture in a stranger's test suite: a failure names the law, the place and the size, without a trace of PP3."""

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest
import torch
from pp3 import Description, Report
from pp3.harness.samplers.torch_controls import Multinomial, StandardRejection

class Twice(Multinomial):
    def run(self, batch):
        probs = torch.softmax(batch.logits / batch.temperature[:, None] ** 2, dim=-1)
        return torch.multinomial(probs, 1, generator=batch.generator)

class Raises(Multinomial):
    def run(self, batch):
        return batch.logitz

ROWS = {"targets": ["rows-of-12"], "device": "cpu"}

def test_passes(qualify):
    report = qualify(Multinomial(), detect=0.05, **ROWS)
    assert isinstance(report, Report)
    assert report.passed
    assert report.resolution <= 0.05

def test_fails(qualify):
    qualify(Twice(), **ROWS)

def test_breaks(qualify):
    qualify(Raises(), **ROWS)

def test_is_not_decided(qualify):
    qualify(Multinomial(), requests=10, **ROWS)

def test_asks_for_another_profile(qualify):
    qualify(Multinomial(), profile="verifier", **ROWS)

def test_asks_for_what_there_is_not(qualify):
    qualify(Multinomial(), targets=["rows-of-13"])

def test_has_no_sampler(qualify):
    qualify(object())

@pytest.mark.xfail(strict=True)
def test_may_be_expected_to_fail(qualify):
    qualify(Twice(), **ROWS)

def test_several_in_one(qualify):
    for counter in (1, 2):
        qualify(Multinomial(), counter=counter, requests=4000, **ROWS)
"""


def test_the_fixture_in_another_suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error", "-ra", "-v")
    result.assert_outcomes(passed=2, failed=6, xfailed=1)
    text = result.stdout.str()
    for told in (
        "FAIL: torch-multinomial * on a CPU does not emit the law it declares, on 1 target (chosen from 10) in *: "
        "rows-of-12, case cool (temperature 0.5), drawn tokens: off by about 0.* in total variation, 0.* would be "
        "seen; token * came 0.*, the law says 0.* (rows-of-12/depth-0/token/cool: G = *",
        "  about rows-of-12, case cool: weights are squared",
        "INVALID: torch-multinomial * broke the sampler contract on *: rows-of-12: raised AttributeError at "
        "test_the_fixture_in_another_suite.py:13: a batch has no 'logitz'; did you mean 'logits'?*",
        "INCONCLUSIVE: torch-multinomial * is not decided on *: rows-of-12/depth-0/token/plain: too few events*",
        "profile 'verifier': torch-multinomial says it is 'plain'; one of them is wrong",
        "qualify: unknown target 'rows-of-13'; did you mean 'rows-of-63'?",
        "object is no sampler: it must be an object with describe() and run(batch); `pp3 init` writes one",
    ):
        result.stdout.fnmatch_lines([told])
    for trace in ("Traceback", "During handling", "harness", "pytest_plugin.py", "api.py"):
        assert trace not in text


def test_it_is_registered_once() -> None:
    found = [point.value for point in entry_points(group="pytest11") if point.name == "pp3"]
    assert found == ["pp3.harness.pytest_plugin"]


def test_loading_it_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, pytest\nimport pp3.harness.pytest_plugin\n"
        "print([m for m in ('torch', 'triton', 'numpy', 'scipy') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    )


def test_fixtures_tells_what_it_takes(pytester: pytest.Pytester) -> None:
    """`pytest --fixtures` is where people look."""
    result = pytester.runpytest_inprocess("--fixtures", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["qualify*", "*judges a sampler and fails the test*"])
