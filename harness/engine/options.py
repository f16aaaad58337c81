"""What the command line says of whole engines: the options of `pp3 qualify`, and `pp3 checkpoint`. Light to import."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from pp3.harness.count import COUNT
from pp3.harness.errors import CampaignError

PATH = click.Path(path_type=Path)
OPTIONS = (
    click.option("--engine", metavar="NAME|URL", help="Judge a whole engine: transformers, reference, or an address."),
    click.option("--model", metavar="NAME", help="Of an engine at an address: the name it knows the model by."),
    click.option("--checkpoint", type=PATH, metavar="DIR", help="Of an engine: the model it serves (pp3 checkpoint)."),
    click.option("--draft-checkpoint", type=PATH, metavar="DIR", help="Of an engine that speculates: its draft model."),
    click.option("--tokens", type=COUNT, help="Of an engine: tokens of its longest stream. Default: 1,000,000."),
    click.option("--dtype", help="Of an engine: the dtype it loads the model in. Default: float32."),
    click.option("--concurrency", type=int, help="Of an engine: requests in flight. Default: 16."),
    click.option("--without", metavar="NAME", multiple=True, help="Of an engine: ask nothing of this parameter."),
    click.option("--prompts", metavar="ids|text", help="At an address: how prompts are sent. Default: ids."),
    click.option("--dialect", metavar="NAME", help="At an address: what it speaks. Default: as its models are owned."),
    click.option("--answer-timeout", type=float, metavar="SECONDS", help="At an address: of an answer. Default: 120."),
    click.option("--retries", type=int, help="At an address: of an answer that did not come whole. Default: 3."),
    click.option("--key-file", type=PATH, metavar="FILE", help="At an address: holds the key that it wants."),
)
AT_ADDRESS = {  # options of an engine at an address, by their name here
    "prompts": "prompts",
    "dialect": "dialect",
    "answer_timeout": "timeout_s",
    "retries": "retries",
    "key_file": "key_file",
}


def of_engines(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of engines to a command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def run(given: Mapping[str, Any], others: Mapping[str, Any], shared: Mapping[str, Any]) -> int:
    """Judge an engine; the exit code. `others` are options that it has none of, by name; `shared` those of any run."""
    from pp3.harness.engine.command import Chosen, run_command
    from pp3.harness.engine.open import Where, served

    for option, value in others.items():
        if value not in (None, (), False):
            own = "--tokens, --concurrency, --dtype, --counter, --jobs, --dir"
            raise CampaignError(f"{option} is for samplers; an engine has {own}")
    at_address = {field: given[name] for name, field in AT_ADDRESS.items() if given[name] is not None}
    if at_address and not served(given["engine"]):
        name = next(name for name, field in AT_ADDRESS.items() if field in at_address)
        raise CampaignError(f"--{name.replace('_', '-')} is of an engine at an address; {given['engine']} has none")
    where = Where(
        engine=given["engine"],
        model=given["model"],
        checkpoint=given["checkpoint"],
        draft=given["draft_checkpoint"],
        dtype=given["dtype"] or "float32",
        device=shared["device"],
        without=given["without"],
        **at_address,
    )
    sizes = {name: given[name] for name in ("tokens", "concurrency") if given[name] is not None}
    return run_command(where, Chosen(**sizes, **{name: value for name, value in shared.items() if name != "device"}))


def refuse(given: Mapping[str, Any]) -> None:
    """CampaignError for an option of engines where none is named."""
    for name, value in given.items():
        if value not in (None, ()):
            raise CampaignError(f"--{name.replace('_', '-')} is for a whole engine; name one with --engine")


@click.command()
@click.argument("target")
@click.option("--out", type=PATH, required=True, metavar="DIR", help="New or empty folder for the model's files.")
@click.option("--draft", is_flag=True, help="The draft model, which has the law of the target's proposal.")
@click.option("--gguf", type=PATH, metavar="FILE", help="Write it in llama.cpp's format too, to a new file.")
def checkpoint(target: str, out: Path, draft: bool, gguf: Path | None) -> int:
    """Write a model whose law is known, for an engine to serve: Llama architecture, safetensors, tokenizer."""
    from pp3.harness.engine.checkpoint_command import checkpoint_command

    return checkpoint_command(target, out, draft, gguf)
