"""`pp3 checkpoint`: write a model whose law is known, for an engine to serve."""

import hashlib
import importlib
from pathlib import Path

import click

from pp3.harness.engine import checkpoint
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.qualify import shown
from pp3.harness.terminal import kept
from pp3.targets import chains


def checkpoint_command(target: str, out: Path, draft: bool, gguf: Path | None) -> int:
    """Write the checkpoint of a target, or of its proposal; in llama.cpp's format too, to a file that must be new."""
    role = "draft" if draft else "target"
    if gguf is not None and gguf.exists():
        raise CampaignError(f"--gguf {gguf} exists already; give another file")
    written = checkpoint.write(target, role, out)
    click.echo(kept("checkpoint", shown(out)))
    if gguf is not None:
        with gguf.open("xb") as file:
            file.write(gguf_of(target, role))
        written.append(gguf)
    for path in written:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        click.echo(kept("sha256", f"{digest} {path.name}"))
    return Exit.OK


def gguf_of(target: str, role: str) -> bytes:
    """A checkpoint as llama.cpp reads it."""
    chain, writer = chains.build(target), importlib.import_module("pp3.harness.engine.gguf")
    content: bytes = writer.encode(
        checkpoint.tensors_of(chain, role),
        words=[checkpoint.word_of(token) for token in range(chain.vocab)],
        end=chain.end,
        longest=checkpoint.LONGEST,
        epsilon=checkpoint.EPSILON,
        name=f"{target} {role}",
    )
    return content
