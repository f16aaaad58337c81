"""Prompts as text: the words of a checkpoint's tokenizer, if text made of them comes back as the same tokens.

A prompt of token ids becomes text that the engine's own tokenizer must read as those ids again. That holds of a
tokenizer of whole words that are joined by spaces, which every checkpoint of PP3 has; of any other it is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness.errors import CampaignError

TOKENIZER = "tokenizer.json"
WAY_OUT = "ask with --prompts ids"
# What would change a text or add to it, where it is other than this.
PLAIN: dict[str, Any] = {
    "normalizer": None,
    "post_processor": None,
    "added_tokens": [],
}


@dataclass(frozen=True, slots=True)
class Words:
    """The word of every token, from 0 on."""

    words: tuple[str, ...]

    def text(self, tokens: Sequence[int]) -> str:
        """The text of a prompt."""
        return " ".join(self.words[token] for token in tokens)


def words_of(texts: Mapping[str, int]) -> Words:
    """The words of a tokenizer's texts. CampaignError unless text made of them comes back as the same tokens."""
    ids = sorted(texts.values())
    if ids != list(range(len(ids))):
        raise CampaignError(f"a tokenizer of {len(ids)} texts has not each id from 0 to {len(ids) - 1} once; {WAY_OUT}")
    found = Words(tuple(sorted(texts, key=texts.__getitem__)))
    for token, word in enumerate(found.words):
        if word.split() != [word]:
            raise CampaignError(
                f"token {token} of the tokenizer has the text {word!r}, which is not one word between spaces, so that "
                f"text made of it does not come back as the same tokens; {WAY_OUT}"
            )
    return found


def texts_of(path: Path) -> dict[str, int]:
    """Texts to ids of a checkpoint's tokenizer. CampaignError for one that is not of whole words between spaces."""
    try:
        told = json.loads((path / TOKENIZER).read_bytes())
        model, splits = told["model"], told["pre_tokenizer"]
        kind, by = model["type"], None if splits is None else splits["type"]
        texts = {str(word): int(token) for word, token in model["vocab"].items()}
        more = [key for key, value in PLAIN.items() if told.get(key, value) != value]
    except OSError as error:
        raise CampaignError(f"{path / TOKENIZER}: {error.strerror}; {WAY_OUT}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CampaignError(f"{path / TOKENIZER} is no tokenizer ({type(error).__name__}); {WAY_OUT}") from None
    if (kind, by) != ("WordLevel", "WhitespaceSplit") or more:
        said = f"{kind} after {by}{''.join(f', {key}' for key in more)}"
        raise CampaignError(
            f"{path / TOKENIZER} is {said}: text comes back as the same tokens of WordLevel after WhitespaceSplit "
            f"alone; {WAY_OUT}"
        )
    return texts
