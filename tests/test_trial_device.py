"""Where a trial ran: a sentence says "interpreter" only where Triton's interpreter made the numbers."""

import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

from pp3.harness.samplers.contract import Description
from pp3.harness.trial.device import identity, interpreted, launches, name_of


@triton.jit
def _double(x_ptr, y_ptr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]  # a kernel
    at = tl.arange(0, SIZE)
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))


def double() -> list[float]:
    """A launch."""
    x = torch.arange(4.0)
    y = torch.empty_like(x)
    _double[(1,)](x, y, SIZE=4)
    return list(y.tolist())


def test_a_launch_is_seen_every_time_and_an_import_is_none() -> None:
    """A second trial in one process is told apart from the first."""
    for _ in range(2):
        with launches() as launched:
            assert not launched()
            assert double() == [0.0, 2.0, 4.0, 6.0]
            assert launched()
        with launches() as launched:
            torch.arange(4.0).softmax(0)
            assert not launched()


@pytest.mark.parametrize(
    ("backend", "launched", "expected"),
    [("", False, False), ("", True, True), ("interpreter", False, True), ("cpu", True, False)],
)
def test_a_declared_backend_decides(backend: str, launched: bool, expected: bool) -> None:
    assert interpreted(Description(name="x", kind="plain", backend=backend), launched) is expected


def test_names() -> None:
    assert name_of(identity("cpu")) == "a CPU"
    assert name_of(identity("cpu", True)) == "a CPU in Triton's interpreter"
    assert name_of({"backend": "cuda", "gpu": "A GPU X"}) == "A GPU X"
    assert name_of({"backend": "cuda", "gpu": "A GPU X", "interpreter": "1"}) == "A GPU X in Triton's interpreter"


def test_without_triton_there_is_nothing_to_see() -> None:
    """Nothing of it is imported either."""
    code = (
        "import sys; from pp3.harness.trial.device import launches\n"
        "with launches() as launched: assert not launched()\n"
        "assert 'triton' not in sys.modules"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, timeout=60)
