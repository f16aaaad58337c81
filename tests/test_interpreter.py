"""The settled interpreter: each function is patched once, and a kernel computes what it computed before."""

import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from pp3.harness import interpreter

PROGRAM = """
import hashlib, sys
import numpy as np
from pp3.harness import interpreter
from pp3.harness.backends import Backend, Dtype, start
if sys.argv[1] == "as it is":
    interpreter.settle = lambda: None
kernels = start(Backend.INTERPRETER)
runtime = sys.modules["triton.runtime.interpreter"]
rng = np.random.default_rng(5)
n, vocab = 3, 97
logits = (rng.integers(-64, 64, (n, vocab)) / 8).astype(np.float32)
keys, rounds, positions = (rng.integers(0, 1 << 40, n).astype(np.uint64) for _ in range(3))
sampled = np.array([True, True, False])
drafts = kernels.propose(logits, Dtype.BF16, sampled, keys, rounds, positions, 0.7)
laws = np.full((n, 3, vocab), 1 / vocab, np.float32)
ids = np.stack([drafts[1], drafts[1]], axis=1).astype(np.int32)
rounded = kernels.verify(laws, ids, None, None, sampled, keys, rounds, positions)
digest = hashlib.sha256()
for array in (*drafts, *rounded):
    digest.update(np.ascontiguousarray(array).tobytes())
print(runtime._patch_lang.__name__, digest.hexdigest())
"""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """A stand-in for Triton's interpreter that counts its own work."""
    calls: list[object] = []
    made = SimpleNamespace(_patch_lang=calls.append, _LangPatchScope=lambda: "nothing to restore", calls=calls)
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", made)
    interpreter.settle.cache_clear()
    yield made
    interpreter.settle.cache_clear()


def test_each_function_is_patched_once_and_nothing_is_restored(runtime: SimpleNamespace) -> None:
    interpreter.settle()
    said = [runtime._patch_lang(function) for function in (len, max, len, len, max)]
    assert runtime.calls == [len, max]
    assert said == ["nothing to restore"] * 5


@pytest.mark.parametrize("lacking", ["_patch_lang", "_LangPatchScope"])
def test_an_interpreter_that_is_built_otherwise_is_left_alone(runtime: SimpleNamespace, lacking: str) -> None:
    delattr(runtime, lacking)
    before = dict(vars(runtime))
    interpreter.settle()
    assert vars(runtime) == before


def test_a_function_that_could_not_be_patched_is_tried_again(runtime: SimpleNamespace) -> None:
    def refuse(function: object) -> None:
        runtime.calls.append(function)
        raise AssertionError("triton.language must be visible")

    runtime._patch_lang = refuse
    interpreter.settle()
    for _ in range(2):
        with pytest.raises(AssertionError, match="visible"):
            runtime._patch_lang(len)
    assert runtime.calls == [len, len]


def test_kernels_compute_the_same_settled_or_not() -> None:
    """In processes of their own, for it cannot be undone; the names show that one was settled, the other not."""
    found = {}
    for how in ("as it is", "settled"):
        ran = subprocess.run(
            [sys.executable, "-P", "-c", PROGRAM, how], capture_output=True, text=True, check=True, env=os.environ
        )
        found[how] = ran.stdout.split()
    assert found["as it is"][0] == "_patch_lang"
    assert found["settled"][0] == "patch_once"
    assert found["as it is"][1] == found["settled"][1]
