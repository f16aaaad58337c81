"""Tensors of a checkpoint in the safetensors format, written in a few lines: equal tensors are equal bytes.

Format: 8 bytes of the header's size, little-endian; the header, JSON with dtype, shape and place of each tensor, padded
with spaces; the tensors, one after another (https://github.com/huggingface/safetensors, "Format").
"""

import json
from collections.abc import Mapping
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from pp3.harness.errors import CampaignError

ALIGNED = 8
LARGEST_HEADER = 1 << 20
Floats = npt.NDArray[np.float32]


class Loaded(StrEnum):
    """The dtype that an engine loads a model in."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


def encode(tensors: Mapping[str, Floats]) -> bytes:
    """A file of FP32 tensors, in the order of their names."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts, end = [], 0
    for name in sorted(tensors):
        part = np.ascontiguousarray(tensors[name], "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape), "data_offsets": [end, end + len(part)]}
        parts.append(part)
        end += len(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decode(content: bytes, where: str) -> dict[str, Floats]:
    """Every tensor of a file. CampaignError for what is no safetensors file, or holds another dtype than FP32."""
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(LARGEST_HEADER, len(content) - 8):
        raise CampaignError(f"{where}: no safetensors file, or a truncated one; make it again with pp3 checkpoint")
    try:
        header = json.loads(content[8 : 8 + size])
        header.pop("__metadata__", None)
        found = {}
        for name, entry in header.items():
            if entry["dtype"] != "F32":
                raise CampaignError(f"{where}: {name} is {entry['dtype']}; pp3 checkpoint writes F32")
            first, end = entry["data_offsets"]
            part = np.frombuffer(content[8 + size + first : 8 + size + end], "<f4")
            found[name] = part.reshape(entry["shape"]).astype(np.float32)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CampaignError(f"{where}: {type(error).__name__}: {error}; make it again with pp3 checkpoint") from None
    return found


def as_loaded(values: Floats, dtype: Loaded) -> npt.NDArray[np.float64]:
    """FP32 values rounded to nearest, ties to even, in the dtype that they are loaded in."""
    if dtype is Loaded.FLOAT16:
        return values.astype(np.float16).astype(np.float64)
    if dtype is Loaded.BFLOAT16:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
        return rounded.astype(np.uint32).view(np.float32).astype(np.float64)
    return values.astype(np.float64)
