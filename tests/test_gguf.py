"""A checkpoint as GGUF: every field and tensor is found where the format says."""

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pp3.harness.engine.gguf import LAYER, SPACE, encode
from pp3.harness.errors import CampaignError

VOCAB, HIDDEN, FEED = 6, 4, 8
WORDS = [f"t{token}" for token in range(VOCAB)]


def tensors() -> dict[str, npt.NDArray[np.float32]]:
    """One layer, every entry another number."""
    shapes = {
        "lm_head.weight": (VOCAB, HIDDEN),
        "model.embed_tokens.weight": (VOCAB, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        f"{LAYER}input_layernorm.weight": (HIDDEN,),
        f"{LAYER}post_attention_layernorm.weight": (HIDDEN,),
        **{f"{LAYER}self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qkvo"},
        f"{LAYER}mlp.gate_proj.weight": (FEED, HIDDEN),
        f"{LAYER}mlp.up_proj.weight": (FEED, HIDDEN),
        f"{LAYER}mlp.down_proj.weight": (HIDDEN, FEED),
    }
    made, first = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        made[name] = np.arange(first, first + size, dtype=np.float32).reshape(shape)
        first += size
    return made


def made(given: dict[str, Any], **more: Any) -> bytes:
    """The file."""
    return encode(given, **{"words": WORDS, "end": 5, "longest": 99, "epsilon": 0.0, "name": "six", **more})


class Reader:
    """Reads the format forwards."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def take(self, form: str) -> Any:
        values = struct.unpack_from("<" + form, self.content, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def text(self) -> str:
        size = self.take("Q")
        self.at += size
        return self.content[self.at - size : self.at].decode()

    def value(self, kind: int) -> Any:
        match kind:
            case 8:
                return self.text()
            case 9:
                inner, count = self.take("I"), self.take("Q")
                return [self.value(inner) for _ in range(count)]
        return self.take({4: "I", 5: "i", 6: "f", 7: "?"}[kind])


def test_every_field_and_tensor_is_where_the_format_says() -> None:
    reader = Reader(made(tensors()))
    assert (reader.content[:4], reader.take("4sI")[1]) == (b"GGUF", 3)
    count, fields = reader.take("Q"), reader.take("Q")
    told = {}
    for _ in range(fields):
        key = reader.text()
        told[key] = reader.value(reader.take("I"))
    assert (told["general.architecture"], told["tokenizer.ggml.model"]) == ("llama", "t5")
    assert told["llama.embedding_length"] == told["llama.rope.dimension_count"] == HIDDEN
    assert (told["llama.feed_forward_length"], told["llama.context_length"]) == (FEED, 99)
    assert told["tokenizer.ggml.tokens"] == [f"{SPACE}{word}" for word in WORDS]  # as text between spaces reads
    assert told["tokenizer.ggml.eos_token_id"] == 5
    assert told["tokenizer.ggml.token_type"] == [1] * 6
    assert told["tokenizer.ggml.add_bos_token"] is told["tokenizer.ggml.add_eos_token"] is False
    assert told["tokenizer.ggml.add_space_prefix"] is True
    infos = {}
    for _ in range(count):
        key = reader.text()
        shape = tuple(reader.take("Q") for _ in range(reader.take("I")))
        kind, place = reader.take("I"), reader.take("Q")
        assert kind == 0
        assert place % 32 == 0
        infos[key] = shape, place
    start = reader.at + -reader.at % 32
    found = {
        key: np.frombuffer(reader.content, "<f4", int(np.prod(shape)), start + place).reshape(shape[::-1])
        for key, (shape, place) in infos.items()
    }
    given = tensors()
    for key, name in {
        "output.weight": "lm_head.weight",
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "blk.0.attn_norm.weight": f"{LAYER}input_layernorm.weight",
        "blk.0.ffn_norm.weight": f"{LAYER}post_attention_layernorm.weight",
        "blk.0.attn_q.weight": f"{LAYER}self_attn.q_proj.weight",
        "blk.0.attn_output.weight": f"{LAYER}self_attn.o_proj.weight",
        "blk.0.ffn_down.weight": f"{LAYER}mlp.down_proj.weight",
    }.items():
        np.testing.assert_array_equal(found[key], given[name])
    assert len(found) == len(given)
    assert len(reader.content) % 32 == 0


def test_equal_checkpoints_are_equal_bytes() -> None:
    backwards = dict(reversed(tensors().items()))
    assert made(tensors()) == made(backwards)


@pytest.mark.parametrize(
    ("change", "more", "said"),
    [
        ({"lm_head.weight": None}, {}, "11 tensors; a model of one layer has 12"),
        ({"model.embed_tokens.weight": None}, {}, "is missing or no matrix"),
        ({f"{LAYER}self_attn.q_norm.weight": np.zeros(4, np.float32)}, {}, "is not known to a Llama model"),
        ({}, {"words": WORDS[:-1]}, "5 words"),
        ({}, {"end": 6}, "an end of 6"),
    ],
    ids=["missing", "no-embedding", "unknown", "words", "end"],
)
def test_what_is_no_such_model_is_refused(change: dict[str, Any], more: dict[str, Any], said: str) -> None:
    given = {key: tensor for key, tensor in (tensors() | change).items() if tensor is not None}
    with pytest.raises(CampaignError, match=said):
        made(given, **more)
