"""What stands in while an image is loaded: watermarks that raise, the platform, the logger, and mends."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_image import FILES, MODULE, PATCHES, VERSION, clean_process, keep

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import load, pins, shims
from pp3.harness.image.find import Image, find
from pp3.harness.image.pins import Part


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: PATCHES) -> Iterator[None]:
    """A pin table and a cache of the test's own; and the process as it was."""
    with clean_process(tmp_path / "home", monkeypatch):
        yield


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """Four small files."""
    return find(keep(tmp_path / "kept", FILES))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (pins.WATERMARK, "philox_gumbel_sample"),
        (pins.WATERMARK, "repeated_context_mask"),
        (pins.PRF_PHILOX, "PhiloxPRF"),
    ],
)
def test_watermark_entry_points_raise(file: str, name: str, image: Image) -> None:
    """The real files, whose launchers cannot be called."""
    loaded = load.load(image, Part.V2)
    assert f"{MODULE[file]}.{name}" in loaded.forbidden
    with pytest.raises(CampaignError, match=f"{name} was called: a watermark changes the law"):
        getattr(loaded.modules[MODULE[file]], name)()


@pytest.mark.parametrize("argument", ["contexts", "watermark_key"])
def test_watermark_arguments_raise(argument: str, image: Image) -> None:
    """Unless they are None."""
    verify = load.load(image, Part.V2).entries["rejection_sample"]
    assert verify(3, **{argument: None}) == (3, VERSION)
    with pytest.raises(CampaignError, match=f"rejection_sample with {argument} was called"):
        verify(3, **{argument: 1})


def test_a_stand_in_that_is_called_raises() -> None:
    """It is not quietly nothing."""
    stands_in = shims.contents()
    for module, names in shims.NEVER_CALLED.items():
        for name in names:
            with pytest.raises(PP3Error, match=f"{module}.{name} was called: it is a stand-in"):
                stands_in[module][name](1, x=2)


@pytest.mark.parametrize(("interpreted", "kind"), [("1", "cpu"), ("0", "cuda")])
def test_the_platform_is_that_of_the_run(interpreted: str, kind: str, monkeypatch: PATCHES) -> None:
    """Kernels are chosen by it: the CPU's in the interpreter."""
    monkeypatch.setenv("TRITON_INTERPRET", interpreted)
    platform: Any = shims.contents()["vllm.platforms"]["current_platform"]
    assert (platform.device_type, platform.is_cuda(), platform.is_cpu()) == (kind, kind == "cuda", kind == "cpu")
    assert not platform.is_rocm()


def test_on_a_gpu_log1p_is_the_real_one(monkeypatch: PATCHES) -> None:
    """And in the interpreter NumPy's."""
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert shims.contents()["vllm.triton_utils"]["tldevice"].__name__ == "triton.language.extra.libdevice"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert shims.contents()["vllm.triton_utils"]["tldevice"].__name__ == "numpy_libdevice"


def test_without_triton_the_image_cannot_be_loaded(image: Image, monkeypatch: PATCHES) -> None:
    """Exit 69."""
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(PP3Error, match=r"triton is not installed.*pp3\[kernels\]") as refusal:
        load.load(image, Part.V2)
    assert refusal.value.exit_code == Exit.UNAVAILABLE


UNMENDED = """
import sys
from pathlib import Path

import torch

from pp3.harness.image import find, interpreter, load, pins

folder, mend = Path(sys.argv[1]), sys.argv[2]
contents = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}
pins.PINS["9.9.9"] = pins.Pin(wheel="", files={n: find.hashlib.sha256(c).hexdigest() for n, c in contents.items()})
setattr(interpreter, mend, lambda *arguments: torch)
print(load.load(find.find(folder), pins.Part.V2).entries["gumbel_sample"](torch.ones(3)).tolist())
"""
MENDS = {
    "_cast_masks": "mask has unsupported dtype",
    "_wrap_loop_variables": "'int' object has no attribute 'to'",
    "numpy_libdevice": "log1p",
    "nothing": None,
}


@pytest.mark.parametrize(("mend", "reason"), MENDS.items(), ids=MENDS)
def test_each_mend_is_needed(mend: str, reason: str | None, image: Image) -> None:
    """Without it the kernel fails, or this Triton needs it no more; never a wrong number."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", UNMENDED, str(image.place), mend],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if reason is None or done.returncode == 0:
        assert (done.returncode, done.stdout) == (0, "[0.6931471824645996, 0.6931471824645996, 0.0]\n")
    else:
        assert reason in done.stderr.splitlines()[-1]


def test_finding_needs_neither_torch_nor_triton() -> None:
    """The command that fetches runs without them."""
    code = "import pp3.harness.image.fetch, sys; print(sorted({'torch', 'triton', 'vllm'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_the_silent_logger_takes_what_vllm_gives() -> None:
    """Any method, any arguments."""
    logger = shims.contents()["vllm.logger"]["init_logger"]("x")
    assert logger.info_once("a %s", 1, scope="global") is None
    assert isinstance(shims.contents()["vllm.platforms"]["CpuArchEnum"], SimpleNamespace)
