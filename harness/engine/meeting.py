"""Meet an engine at an address: what it serves and speaks, and whether that is what is to be judged.

What an engine tells of itself is held against what the user said of it; what it does not tell is taken at their word.
"""

from collections.abc import Mapping
from typing import Any

from pp3.harness.engine.dialect import Dialect
from pp3.harness.engine.dialect_native import LlamaCpp, Sglang
from pp3.harness.engine.dialect_openai import OpenAI, Vllm
from pp3.harness.engine.transport import AttemptError, Line
from pp3.harness.engine.words import Words
from pp3.harness.errors import CampaignError

OWNERS: dict[str, Dialect] = {  # `owned_by` of GET /v1/models
    "vllm": Vllm(),
    "sglang": Sglang(),
    "llamacpp": LlamaCpp(),
    "pp3": Vllm(
        name="pp3",
        own=True,
        told_at="/version",
        replays=frozenset({"alone", "batch", "order", "slot"}),
        filters="vllm-torch",
    ),
}
NAMES = ("auto", "openai", *(known.name for known in OWNERS.values()))
AT_ONCE = 256  # words that a tokenizer is asked of
MALFORMED = (KeyError, TypeError, IndexError, ValueError, AttributeError)


def entry_of(models: Any, model: str, url: str) -> dict[str, Any]:
    """The entry of a model in what GET /v1/models answers. CampaignError where it is not served."""
    try:
        served = [dict(entry) for entry in models["data"]]
        names = [name for entry in served for name in (str(entry["id"]), *entry.get("aliases", ()))]
    except MALFORMED as error:
        raise CampaignError(
            f"engine {url}: GET /v1/models lists no models as OpenAI does; is this the engine's port?"
        ) from error
    if model not in names:
        raise CampaignError(f"engine {url}: model {model!r} is not served; it serves {', '.join(names) or 'none'}")
    return next(entry for entry in served if model in (entry["id"], *entry.get("aliases", ())))


def hold_speculation(line: Line, dialect: Dialect, wanted: bool, seconds: float) -> str:
    """Hold what is said of speculation against what the engine tells; CampaignError where they differ."""
    told = None
    try:
        if dialect.told_at is not None:
            told = dialect.speculates(line.content("GET", dialect.told_at, None, seconds))
    except (AttemptError, *MALFORMED):  # not offered
        pass
    if told is None:
        return "not told"
    if told and not wanted:
        raise CampaignError(f"engine {line.address.url}: it speculates; name its draft model with --draft-checkpoint")
    if wanted and not told:
        raise CampaignError(
            f"engine {line.address.url}: it does not speculate; start it with its draft model, or leave out "
            "--draft-checkpoint"
        )
    return "yes" if told else "no"


def hold_words(line: Line, dialect: Dialect, words: Words, model: str, seconds: float) -> None:
    """Let the engine's tokenizer read every word; CampaignError for one that it reads otherwise.

    Where that is not offered, every answer still tells how many tokens its prompt was read as.
    """
    if dialect.tokenize is None:
        return
    path, key = dialect.tokenize
    for first in range(0, len(words.words), AT_ONCE):
        wanted = list(range(first, min(first + AT_ONCE, len(words.words))))
        try:
            body = {"model": model, key: words.text(wanted), "add_special_tokens": False}
            read = list(line.exchange("POST", path, body, seconds)["tokens"])
        except (AttemptError, *MALFORMED):
            return
        if read != wanted:
            odd = [(word, got) for word, got in zip(wanted, read, strict=False) if word != got]
            said = f"{len(wanted)} words as {len(read)} tokens"
            if len(read) == len(wanted):
                said = f"{words.words[odd[0][0]]!r} as token {odd[0][1]}, the checkpoint's as {odd[0][0]}"
            raise CampaignError(
                f"engine {line.address.url}: its tokenizer reads {said}; let it serve the tokenizer of the checkpoint, "
                "or ask with --prompts ids"
            )


def dialect_of(name: str, owner: str, texts: Mapping[str, int] | None) -> Dialect:
    """By name, or by whom the list of models says it is owned."""
    by_name: dict[str, Dialect] = {known.name: known for known in OWNERS.values()}
    if name in by_name:
        return by_name[name]
    if name == "auto" and owner in OWNERS:
        return OWNERS[owner]
    if texts is None:
        raise CampaignError(
            f"engine owned by {owner!r}, dialect {name}: token ids are not told; give the tokenizer's texts, or choose "
            f"a dialect that tells ids: {', '.join(by_name)}"
        )
    if len(set(texts.values())) < len(texts):
        raise CampaignError("two token texts have one id; ids cannot be found by text with this tokenizer")
    return OpenAI(texts=texts)
