"""A checkpoint as llama.cpp reads it: GGUF 3, every tensor FP32, written in a few lines.

Format: magic, version, number of tensors and of fields; the fields (name, type, value); the tensors' names, shapes
(innermost first) and places; the tensors, each aligned. All little-endian (ggml's docs/gguf.md). The vocabulary is that
of a unigram tokenizer (llama.cpp calls it t5), whose pieces are the words with the space before each, of equal scores:
words between spaces are read as their tokens, as the checkpoint's own tokenizer reads them.
"""

import struct
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pp3.harness.errors import CampaignError

Floats = npt.NDArray[np.float32]
MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
U32, I32, F32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9  # types of a field
NORMAL = 1  # type of a token; of the end too, so that it can be read
SPACE = "\u2581"  # as a piece spells it
ROPE_BASE = 10_000.0
NAMES = {
    "lm_head.weight": "output.weight",
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
LAYER = "model.layers.0."


def encode(
    tensors: Mapping[str, Floats], *, words: Sequence[str], end: int, longest: int, epsilon: float, name: str
) -> bytes:
    """A model of one Llama layer and one head, from tensors by their Hugging Face names; equal ones are equal bytes.

    `words` are the texts of the tokens, `end` the token that ends a sequence, `longest` the positions, `epsilon` that
    of the normalisation (0 is taken). Raises CampaignError for a tensor that is unknown, missing or of another shape.
    """
    vocab, hidden = _shape(tensors, "model.embed_tokens.weight")
    feed, _ = _shape(tensors, f"{LAYER}mlp.gate_proj.weight")
    if len(words) != vocab or not 0 <= end < vocab:
        raise CampaignError(f"{len(words)} words and an end of {end} for {vocab} embedded tokens; give one word each")
    named = {_named(key): np.ascontiguousarray(tensor, "<f4") for key, tensor in tensors.items()}
    if len(named) != len(NAMES):
        raise CampaignError(f"{len(named)} tensors; a model of one layer has {len(NAMES)}")
    fields = [
        _field("general.architecture", STRING, "llama"),
        _field("general.name", STRING, name),
        _field("general.file_type", U32, 0),
        _field("llama.block_count", U32, 1),
        _field("llama.context_length", U32, longest),
        _field("llama.embedding_length", U32, hidden),
        _field("llama.feed_forward_length", U32, feed),
        _field("llama.attention.head_count", U32, 1),
        _field("llama.attention.head_count_kv", U32, 1),
        _field("llama.attention.layer_norm_rms_epsilon", F32, epsilon),
        _field("llama.rope.dimension_count", U32, hidden),
        _field("llama.rope.freq_base", F32, ROPE_BASE),
        _field("llama.vocab_size", U32, vocab),
        _field("tokenizer.ggml.model", STRING, "t5"),
        _array("tokenizer.ggml.tokens", STRING, [f"{SPACE}{word}" for word in words]),
        _array("tokenizer.ggml.scores", F32, [0.0] * vocab),
        _array("tokenizer.ggml.token_type", I32, [NORMAL] * vocab),
        _field("tokenizer.ggml.bos_token_id", U32, 0),
        _field("tokenizer.ggml.eos_token_id", U32, end),
        _field("tokenizer.ggml.unknown_token_id", U32, 0),
        _field("tokenizer.ggml.add_bos_token", BOOL, False),
        _field("tokenizer.ggml.add_eos_token", BOOL, False),
        _field("tokenizer.ggml.add_space_prefix", BOOL, True),
        _field("tokenizer.ggml.remove_extra_whitespaces", BOOL, False),
    ]
    infos, parts, place = [], [], 0
    for key in sorted(named):
        tensor = named[key]
        shape = tensor.shape[::-1]
        infos.append(_string(key) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, place))
        parts.append(_padded(tensor.tobytes()))
        place += len(parts[-1])
    head = MAGIC + struct.pack("<IQQ", VERSION, len(named), len(fields)) + b"".join(fields) + b"".join(infos)
    return _padded(head) + b"".join(parts)


def _named(key: str) -> str:
    """llama.cpp's name of a tensor."""
    inner = key.removeprefix(LAYER)
    if inner not in NAMES:
        raise CampaignError(f"tensor {key!r} is not known to a Llama model of one layer")
    return f"blk.0.{NAMES[inner]}" if inner != key else NAMES[inner]


def _shape(tensors: Mapping[str, Floats], key: str) -> tuple[int, int]:
    if key not in tensors or tensors[key].ndim != 2:
        raise CampaignError(f"tensor {key!r} is missing or no matrix; it sizes the model")
    rows, columns = tensors[key].shape
    return rows, columns


def _value(kind: int, value: object) -> bytes:
    if kind == STRING:
        return _string(str(value))
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], value)


def _string(text: str) -> bytes:
    content = text.encode()
    return struct.pack("<Q", len(content)) + content


def _field(key: str, kind: int, value: object) -> bytes:
    return _string(key) + struct.pack("<I", kind) + _value(kind, value)


def _array(key: str, kind: int, values: Sequence[object]) -> bytes:
    packed = b"".join(_value(kind, value) for value in values)
    return _string(key) + struct.pack("<IIQ", ARRAY, kind, len(values)) + packed


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % ALIGNMENT)
