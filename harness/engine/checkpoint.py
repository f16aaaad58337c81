"""Checkpoints whose law is known: Hugging Face models of the Llama architecture, made of a chain of targets/chains.py.

The embedding maps a token to its class, one of HIDDEN orthogonal directions; attention and MLP add zero; the head holds
the logarithms of the chain's table over sqrt(HIDDEN), which the last normalisation multiplies by sqrt(HIDDEN) = 8. Each
logit is one entry of the head times a power of two, so it has no rounding of its own in any dtype. What must never be
emitted has the logit NEVER, whose exponential is 0 in every dtype.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pp3.harness.engine.tensors import Floats, decode, encode
from pp3.harness.errors import CampaignError
from pp3.targets import chains
from pp3.targets.chains import Chain
from pp3.targets.target import ONE

HIDDEN = 64  # a power of four, so that its root is a power of two
NEVER = -1024.0
EPSILON = 1e-12  # of the normalisation: below the rounding of 1 / HIDDEN
LONGEST = 8192  # positions
WEIGHTS, MANIFEST = "model.safetensors", "pp3.json"
FORMAT = "pp3-checkpoint-v1"
ROLES = ("target", "draft")
ZERO = ("self_attn.o_proj", "mlp.down_proj")  # what makes a layer add nothing
LAYER = "model.layers.0"


class ManifestShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What pp3.json says of the files beside it."""

    format: str
    target: str
    role: str
    files: dict[str, str]  # SHA-256 by name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoint:
    """A folder that was opened, held against what the chain's name rebuilds."""

    path: Path
    chain: Chain
    role: str
    files: dict[str, str]  # SHA-256 by name
    tensors: dict[str, Floats]


def tensors_of(chain: Chain, role: str) -> dict[str, Floats]:
    """Every tensor of a checkpoint. Identical for equal chains."""
    weights = chain.weights if role == "target" else chain.draft_weights
    with np.errstate(divide="ignore"):
        logs = np.where(weights > 0, np.log(weights / ONE), NEVER)
    head = np.zeros((chain.vocab, HIDDEN), np.float32)
    head[:, : chain.classes] = (logs / np.sqrt(HIDDEN)).T
    embedding = np.zeros((chain.vocab, HIDDEN), np.float32)
    embedding[np.arange(chain.vocab), chain.class_of] = 1
    square, ones = np.zeros((HIDDEN, HIDDEN), np.float32), np.ones(HIDDEN, np.float32)
    projections = [f"self_attn.{name}_proj" for name in "qkvo"] + [
        f"mlp.{name}_proj" for name in ("gate", "up", "down")
    ]
    return {
        "lm_head.weight": head,
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": ones,
        f"{LAYER}.input_layernorm.weight": ones,
        f"{LAYER}.post_attention_layernorm.weight": ones,
        **{f"{LAYER}.{name}.weight": square for name in projections},
    }


@cache
def files_of(name: str, role: str) -> dict[str, bytes]:
    """Every file of a checkpoint by name, the manifest last. KeyError for a name that is no chain."""
    chain = chains.build(name)
    words = [word_of(token) for token in range(chain.vocab)]
    special = {
        "bos_token": words[0],
        "eos_token": words[chain.end],
        "pad_token": words[chain.end],
        "unk_token": words[0],
    }
    ids = {"bos_token_id": 0, "eos_token_id": chain.end, "pad_token_id": chain.end}
    texts: dict[str, dict[str, Any]] = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "head_dim": HIDDEN,
            "hidden_act": "silu",
            "hidden_size": HIDDEN,
            "intermediate_size": HIDDEN,
            "max_position_embeddings": LONGEST,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": 1,
            "num_hidden_layers": 1,
            "num_key_value_heads": 1,
            "rms_norm_eps": EPSILON,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
            "use_cache": True,
            "vocab_size": chain.vocab,
            **ids,
        },
        "generation_config.json": {"do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, **ids},
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None,
            "decoder": None,
            "model": {
                "type": "WordLevel",
                "vocab": {word: token for token, word in enumerate(words)},
                "unk_token": words[0],
            },
        },
        "tokenizer_config.json": {
            "add_bos_token": False,
            "add_eos_token": False,
            "clean_up_tokenization_spaces": False,
            "model_max_length": LONGEST,
            "tokenizer_class": "PreTrainedTokenizerFast",
            **special,
        },
        "special_tokens_map.json": special,
    }
    found = {file: (json.dumps(text, indent=1, sort_keys=True) + "\n").encode() for file, text in texts.items()}
    found[WEIGHTS] = encode(tensors_of(chain, role))
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in sorted(found.items())}
    manifest = {"files": digests, "format": FORMAT, "role": role, "target": name}
    found[MANIFEST] = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    return found


def digests_of(name: str, role: str) -> dict[str, str]:
    """SHA-256 of every file that a checkpoint of this chain has, but the manifest."""
    return {
        file: hashlib.sha256(content).hexdigest()
        for file, content in sorted(files_of(name, role).items())
        if file != MANIFEST
    }


def word_of(token: int) -> str:
    """The word that the tokenizer knows a token by: one word an id, joined by spaces."""
    return f"t{token}"


def write(name: str, role: str, out: Path) -> list[Path]:
    """Write a checkpoint into a folder that is new or empty. CampaignError otherwise; nothing is overwritten."""
    if name not in chains.NAMES:
        raise CampaignError(f"unknown target {name!r}; a checkpoint is made of {', '.join(chains.NAMES)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        held = sum(1 for _ in out.iterdir())
    except OSError as error:
        raise CampaignError(f"--out {out}: {error.strerror}; give a folder that can be written") from None
    if held:
        raise CampaignError(f"--out {out} already holds {held} files; give a new or empty folder")
    written = []
    for file, content in files_of(name, role).items():
        with (out / file).open("xb") as handle:
            handle.write(content)
        written.append(out / file)
    return written


def open_checkpoint(path: Path, role: str) -> Checkpoint:
    """A checkpoint of `write`. CampaignError for a folder that is none, was altered, or is of another role."""
    again = "make it again with pp3 checkpoint"
    try:
        manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=ManifestShape)
    except OSError as error:
        raise CampaignError(f"{path / MANIFEST}: {error.strerror}; give a folder that pp3 checkpoint wrote") from None
    except msgspec.MsgspecError as error:
        raise CampaignError(f"{path / MANIFEST}: {error}; {again}") from None
    if manifest.format != FORMAT or manifest.target not in chains.NAMES or manifest.role not in ROLES:
        raise CampaignError(f"{path / MANIFEST}: {manifest.format}, {manifest.role} of {manifest.target}; {again}")
    if manifest.role != role:
        raise CampaignError(
            f"{path} is the {manifest.role} of {manifest.target}, and the {role} is wanted: "
            f"pp3 checkpoint {manifest.target} --out DIR{' --draft' if role == 'draft' else ''} makes it"
        )
    expected, content = digests_of(manifest.target, role), b""
    for file, digest in expected.items():
        try:
            content = (path / file).read_bytes()
        except OSError as error:
            raise CampaignError(f"{path / file}: {error.strerror}; {again}") from None
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise CampaignError(f"{path / file} hashes to {found}, and {manifest.target} has {digest}; {again}")
    return Checkpoint(
        path=path,
        chain=chains.build(manifest.target),
        role=role,
        files=expected,
        tensors=decode((path / WEIGHTS).read_bytes(), str(path / WEIGHTS)),
    )
