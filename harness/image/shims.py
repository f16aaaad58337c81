"""Stand-ins for what the image's files import and no draw depends on.

Every package is an empty module. `vllm.triton_utils` hands over Triton. A few modules hold a setting or a device fact;
whatever else is named at import raises when it is called.
"""

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

from pp3.harness.errors import CampaignError, PP3Error
from pp3.harness.image import interpreter

FORBIDDEN = {
    "vllm.v1.worker.gpu.sample.watermark": (
        "philox_gumbel_sample",
        "draft_philox_gumbel_sample",
        "draft_watermarking_mask",
        "repeated_context_mask",
    ),
    "vllm.v1.watermarking.prfs.philox": ("PhiloxPRF",),
}
WATERMARK_ARGUMENTS = ("contexts", "watermarking", "watermarking_skip_mask", "watermark_key")
NEVER_CALLED = {
    "vllm._aiter_ops": ("rocm_aiter_ops",),
    "vllm.platforms.interface": ("DeviceCapability",),
    "vllm.utils.torch_utils": ("async_tensor_h2d",),
    "vllm.v1.outputs": ("LogprobsLists", "LogprobsTensors", "SamplerOutput"),
    "vllm.v1.sample.logits_processor.builtin": ("MinTokensLogitsProcessor",),
    "vllm.v1.sample.metadata": ("SamplingMetadata",),
    "vllm.v1.sample.ops.bad_words": ("apply_bad_words_with_drafts",),
    "vllm.v1.sample.ops.penalties": ("apply_all_penalties",),
    "vllm.v1.sample.ops.topk_topp_sampler": ("apply_top_k_top_p",),
    "vllm.v1.sample.sampler": ("Sampler",),
    "vllm.v1.spec_decode.metadata": ("SpecDecodeMetadata",),
    "vllm.v1.spec_decode.utils": ("unconditional_to_conditional_rates",),
}


def contents() -> dict[str, dict[str, Any]]:
    """Module name to attributes of every stand-in that is not an empty package."""
    platform = _platform()
    return {
        "vllm.triton_utils": _triton_utils(),
        "vllm.envs": {
            "VLLM_TRITON_JIT_WARMUP_NUM_THREADS": 1,  # no compilation ahead of the first launch
            "VLLM_USE_FLASHINFER_SAMPLER": False,  # the files themselves are under test
        },
        "vllm.config.model": {
            "LogprobsMode": str,
            "PROCESSED_LOGPROBS_MODES": ("processed_logits", "processed_logprobs"),
        },
        "vllm.logger": {"init_logger": lambda name: _Silent()},
        "vllm.platforms": {
            "CpuArchEnum": SimpleNamespace(X86="x86", RISCV="riscv", POWERPC="powerpc"),
            "current_platform": platform,
        },
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.utils.platform_utils": {"num_compute_units": platform.num_compute_units},
        **{
            module: {name: _never_called(f"{module}.{name}") for name in names}
            for module, names in NEVER_CALLED.items()
        },
    }


def forbidden(name: str) -> Callable[..., NoReturn]:
    """What stands in a watermark entry point's place: it raises CampaignError."""

    def raises(*arguments: Any, **named: Any) -> NoReturn:
        raise CampaignError(f"{name} was called: a watermark changes the law, so none is run; leave its arguments out")

    return raises


def without_watermark(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[str]]:
    """The same function, raising CampaignError when it is given a watermark argument; the arguments it refuses."""
    signature = inspect.signature(function)
    refused = [name for name in WATERMARK_ARGUMENTS if name in signature.parameters]
    if not refused:
        return function, refused

    @functools.wraps(function)
    def unmarked(*arguments: Any, **named: Any) -> Any:
        given = signature.bind_partial(*arguments, **named).arguments
        for name in refused:
            if given.get(name) is not None:
                forbidden(f"{function.__module__}.{function.__name__} with {name}")()
        return function(*arguments, **named)

    return unmarked, refused


def _never_called(name: str) -> type:
    def raises(cls: type, *arguments: Any, **named: Any) -> NoReturn:
        raise PP3Error(f"{name} was called: it is a stand-in, so what is being run needs more of vLLM than is loaded")

    return type(name.rpartition(".")[2], (), {"__new__": raises})


def _triton_utils() -> dict[str, Any]:
    device = (
        interpreter.numpy_libdevice()
        if interpreter.active()
        else importlib.import_module("triton.language.extra.libdevice")
    )
    return {
        "HAS_TRITON": True,
        "tl": importlib.import_module("triton.language"),
        "tldevice": device,
        "triton": importlib.import_module("triton"),
    }


def _platform() -> SimpleNamespace:
    """CUDA, or the CPU in the interpreter: the files choose kernels by it as well as by the tensors' device."""
    cuda = not interpreter.active()
    return SimpleNamespace(
        device_type="cuda" if cuda else "cpu",
        get_cpu_architecture=lambda: "x86",
        is_cpu=lambda: not cuda,
        is_cuda=lambda: cuda,
        is_cuda_alike=lambda: cuda,
        is_rocm=lambda: False,
        is_xpu=lambda: False,
        num_compute_units=_num_compute_units,
        simple_compile_backend="inductor",
    )


def _num_compute_units(device: int | None = None) -> int:
    """Multiprocessors of a GPU; without one torch's threads, as vLLM's CPU platform has it."""
    torch = importlib.import_module("torch")
    if interpreter.active():
        return int(torch.get_num_threads())
    index = torch.cuda.current_device() if device is None else device
    return int(torch.cuda.get_device_properties(index).multi_processor_count)


class _Silent:
    """A logger without output."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None
