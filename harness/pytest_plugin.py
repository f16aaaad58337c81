"""A pytest fixture that qualifies a sampler: `def test_mine(qualify): qualify(MySampler(), detect=0.05)`.

Installed with pp3; loading it imports neither torch nor triton.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest


@pytest.fixture
def qualify() -> Callable[..., Any]:
    """A function that judges a sampler and fails the test with the law broken, where, and by how much.

    qualify(sampler, *, profile=None, detect=0.0, targets=(), requests=None, alpha=1e-5, device="auto", counter=1)
    returns a pp3.Report; arguments as `pp3.qualify`. By default 20,000 requests of each law; `detect`, a total
    variation that must be seen, takes as many as it needs. The same counter draws the same requests: nothing is flaky.
    """

    def run(sampler: Any, *, profile: str | None = None, targets: Sequence[str] = (), **options: Any) -> Any:
        from pp3.harness.errors import PP3Error
        from pp3.harness.trial.api import qualify as judge

        try:
            report = judge(sampler, profile=profile, targets=targets, **options)
        except PP3Error as error:
            wrong = str(error)
        else:
            wrong = "" if report.passed else str(report)
        if wrong:  # not while the error is handled, or its trace is shown
            pytest.fail(wrong, pytrace=False)
        return report

    return run
