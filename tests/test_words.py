"""The words of a checkpoint's tokenizer: text made of them comes back, and of what does not it is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from pp3.harness.engine.checkpoint import files_of
from pp3.harness.engine.words import TOKENIZER, texts_of, words_of
from pp3.harness.errors import CampaignError
from pp3.targets import chains


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the tokenizer of a checkpoint."""
    (tmp_path / TOKENIZER).write_bytes(files_of("chain-64", "target")[TOKENIZER])
    return tmp_path


@pytest.mark.parametrize("name", chains.NAMES)
def test_every_token_of_every_checkpoint_comes_back(name: str, tmp_path: Path) -> None:
    (tmp_path / TOKENIZER).write_bytes(files_of(name, "target")[TOKENIZER])
    texts = texts_of(tmp_path)
    text = words_of(texts).text(range(len(texts)))
    assert [texts[word] for word in text.split()] == list(range(chains.build(name).vocab))


ODD: dict[str, tuple[dict[str, Any], str]] = {
    "pieces of words": ({"model": {"type": "BPE", "vocab": {}}}, "is BPE after WhitespaceSplit"),
    "another split": ({"pre_tokenizer": {"type": "ByteLevel"}}, "is WordLevel after ByteLevel"),
    "no split": ({"pre_tokenizer": None}, "is WordLevel after None"),
    "an added beginning": ({"post_processor": {"type": "TemplateProcessing"}}, "WhitespaceSplit, post_processor"),
    "other letters": ({"normalizer": {"type": "Lowercase"}}, "WhitespaceSplit, normalizer"),
    "added tokens": ({"added_tokens": [{"id": 64}]}, "WhitespaceSplit, added_tokens"),
    "no model": ({"model": None}, "is no tokenizer .TypeError."),
}


@pytest.mark.parametrize(("changed", "said"), ODD.values(), ids=ODD)
def test_what_would_not_come_back_is_refused(changed: dict[str, Any], said: str, folder: Path) -> None:
    told = json.loads((folder / TOKENIZER).read_bytes())
    (folder / TOKENIZER).write_text(json.dumps(told | changed), "utf-8")
    with pytest.raises(CampaignError, match=f"{said}.*ask with --prompts ids"):
        texts_of(folder)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match=r"No such file.*--prompts ids"):
        texts_of(tmp_path)
    (tmp_path / TOKENIZER).write_bytes(b"{")
    with pytest.raises(CampaignError, match=r"is no tokenizer .JSONDecodeError."):
        texts_of(tmp_path)


@pytest.mark.parametrize("texts", [{"a": 0, "b": 0}, {"a": 1}, {"a": 0, "": 1}, {"a ": 0}, {"a\u00a0b": 0}])
def test_texts_that_are_no_words_are_refused(texts: dict[str, int]) -> None:
    with pytest.raises(CampaignError, match="ask with --prompts ids"):
        words_of(texts)
