"""Small files in the places of vLLM's."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pp3.harness.image import cache, pins

VERSION = "9.9.9"
PATCHES = pytest.MonkeyPatch
MODULE = {name: name.removesuffix(".py").replace("/", ".") for parts in pins.PARTS.values() for name in parts}
GUMBEL = f'''
import torch

from vllm.triton_utils import tl, tldevice, triton

VERSION = "{VERSION}"


@triton.jit
def _kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    for row in tl.range(0, 1):
        mask = (lane < n) & (row.to(tl.int64) == 0)
        x = tl.load(x_ptr + lane, mask=mask, other=0.0)
        tl.store(y_ptr + lane, tldevice.log1p(x), mask=mask)


def gumbel_sample(x):
    y = torch.zeros_like(x)
    _kernel[(1,)](x, y, len(x) - 1, BLOCK=8)
    return y
'''
FILES = {
    pins.PRF_PHILOX: "class PhiloxPRF:\n    pass\n",
    pins.WATERMARK: (
        "from vllm.v1.watermarking.prfs.philox import PhiloxPRF\n\n\n"
        "def philox_gumbel_sample():\n    return 'marked'\n\n\n"
        "def repeated_context_mask():\n    return 'marked'\n"
    ),
    pins.GUMBEL: GUMBEL,
    pins.VERIFIER: (
        "from vllm.v1.worker.gpu.sample.gumbel import VERSION\n"
        "from vllm.v1.worker.gpu.sample.watermark import philox_gumbel_sample\n\n\n"
        "def rejection_sample(draft, contexts=None, watermark_key=None):\n    return draft, VERSION\n"
    ),
}


def keep(folder: Path, files: dict[str, str], version: str = VERSION) -> Path:
    """Files as an unpacked wheel, with their pins."""
    contents = {name: text.encode() for name, text in files.items()}
    cache.write(folder, version, contents)
    pins.PINS[version] = pins.Pin(
        wheel="0" * 64, files={name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    )
    return folder


@contextmanager
def clean_process(home: Path, patches: PATCHES) -> Iterator[None]:
    """An empty pin table and a cache of the test's own; and the process ends as it was."""
    patches.setattr(pins, "PINS", {})
    patches.setenv(cache.VARIABLE, str(home))
    before = [*sys.meta_path], {name for name in sys.modules if name.startswith("vllm")}
    yield
    assert ([*sys.meta_path], {name for name in sys.modules if name.startswith("vllm")}) == before
