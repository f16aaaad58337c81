"""Checkpoints and their laws: files that real readers read, the exact law of each, and ranks that are uniform."""

import hashlib
import importlib
import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from pp3.harness.engine import checkpoint, law
from pp3.harness.engine.cells import FORBIDDEN, PARTS, UNDECIDED, match_chance, pair_law, part_of, pooled
from pp3.harness.engine.conditions import COOL, filters
from pp3.harness.engine.law import Setting, law_of
from pp3.harness.engine.ranks import equal_ranks, favoured, penalty_ranks, uniform_ranks
from pp3.harness.engine.tensors import Loaded, as_loaded, decode, encode
from pp3.harness.errors import CampaignError
from pp3.harness.filters import ENGINES, law_of_logits
from pp3.targets import chains
from pp3.targets.filtered import Settings
from pp3.targets.target import ONE

SMALL = chains.NAMES[:3]


def logits(name: str, role: str = "target", dtype: Loaded = Loaded.FLOAT32) -> law.Law:
    """Of a chain, from the tensors of its checkpoint."""
    chain = chains.build(name)
    return law.logits_of(checkpoint.tensors_of(chain, role), chain, dtype, checkpoint.EPSILON)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("role", checkpoint.ROLES)
def test_the_law_is_the_chain_s(name: str, role: str) -> None:
    """To the rounding of an FP32 logit of at most 17, 2^-20 of a probability; what is impossible is exactly 0."""
    chain = chains.build(name)
    weights = chain.weights if role == "target" else chain.draft_weights
    found = law_of(logits(name, role), Setting())
    assert np.abs(found / np.where(weights, weights / ONE, 1) - 1)[weights > 0].max() < 2.0**-20
    assert np.array_equal(found == 0, weights == 0)


@pytest.mark.parametrize("name", chains.NAMES)
def test_chains_are_what_conditions_rely_on(name: str) -> None:
    """Rows of ordinary tokens meet neither doors nor end; one tie, a clear favourite elsewhere; rows differ."""
    chain = chains.build(name)
    ordinary = chain.weights[: chain.classes - 1]
    assert not ordinary[:, chain.ordinary :].any()
    assert not chain.draft_weights[: chain.classes - 1, chain.ordinary :].any()
    assert chain.weights[-1, chain.end] > 0.2 * ONE
    top = -np.sort(-ordinary, axis=1)
    assert top[chains.TIED, 0] == top[chains.TIED, 1]
    assert (np.delete(top[:, 0] / top[:, 1], chains.TIED) > 1.2).all()
    assert np.abs(ordinary[1] - ordinary[2]).sum() / 2 / ONE > 0.2
    both = np.minimum(chain.weights, chain.draft_weights).sum(axis=1) / ONE
    assert ((both > 0.5) & (both < 0.95)).all()
    assert ((chain.weights == 0) & (chain.draft_weights > 0)).any()
    assert ((chain.weights > 0) & (chain.draft_weights == 0)).any()
    assert chain.classes <= checkpoint.HIDDEN


def test_equal_names_give_equal_bytes() -> None:
    """A receipt binds them, and whoever verifies it makes them again."""
    files = checkpoint.files_of("chain-64", "target")
    assert hashlib.sha256(files[checkpoint.WEIGHTS]).hexdigest() == (
        "9473e9af07b16fef2196fa8865b25056f2ecbe487bf7ba04c18342b979d731f9"
    )
    checkpoint.files_of.cache_clear()
    assert checkpoint.files_of("chain-64", "target") == files


def test_tensors_come_back() -> None:
    """Of every shape, in the order of their names, and aligned."""
    tensors = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.zeros(0, np.float32)}
    content = encode(tensors)
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0
    assert list(json.loads(content[8 : 8 + size])) == ["__metadata__", "a", "b"]
    found = decode(content, "x")
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.skipif(find_spec("safetensors") is None, reason="transformers is no dependency; with pp3[engine] they run")
def test_the_safetensors_package_reads_them() -> None:
    """Which every engine does with."""
    load = importlib.import_module("safetensors.numpy").load
    tensors = checkpoint.tensors_of(chains.build("chain-64"), "draft")
    found = load(encode(tensors))
    assert all(np.array_equal(found[name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated"),
        (b"\x08\0\0\0\0\0\0\0", "truncated"),
        (b"\x02\0\0\0\0\0\0\0xx", "JSONDecodeError"),
        (encode({"a": np.zeros(4, np.float32)}).replace(b"F32", b"F16"), "writes F32"),
        (encode({"a": np.zeros(4, np.float32)})[:-4], "cannot reshape"),
    ],
    ids=["empty", "no header", "no JSON", "another dtype", "truncated"],
)
def test_what_is_no_file_of_tensors_is_refused(content: bytes, says: str) -> None:
    """With the place and the way out."""
    with pytest.raises(CampaignError, match=says):
        decode(content, "x")


@pytest.mark.parametrize("dtype", [Loaded.BFLOAT16, Loaded.FLOAT16])
def test_rounding_is_torch_s(dtype: Loaded, rng: np.random.Generator) -> None:
    """Bit for bit, ties and the smallest values too."""
    values = np.concatenate([rng.normal(size=4096), [0.0, -128.0, 1.00390625, 1.01171875, 2.0**-130]]).astype(
        np.float32
    )
    as_torch = torch.tensor(values).to(getattr(torch, dtype.value)).double().numpy()
    assert np.array_equal(as_loaded(values, dtype), as_torch)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_fp32_softmax_stays_within_the_error(name: str, dtype: torch.dtype) -> None:
    """The arithmetic of an engine, in torch: root, product with the head in the dtype, temperature, softmax in FP32."""
    chain = chains.build(name)
    loaded = Loaded(str(dtype).removeprefix("torch."))
    tensors = {key: torch.tensor(value).to(dtype) for key, value in checkpoint.tensors_of(chain, "target").items()}
    rows = tensors["model.embed_tokens.weight"][: chain.vocab].float()
    hidden = (rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + checkpoint.EPSILON)).to(dtype)
    out = (hidden @ tensors["lm_head.weight"].T).float()
    for temperature in (1.0, COOL):
        setting = Setting(temperature=temperature)
        exact = law_of(logits(name, dtype=loaded), setting)[chain.class_of]
        found = torch.softmax(out / temperature, -1).double().numpy()
        ratio = found / np.where(exact > 0, exact, 1) / found.sum(axis=1, keepdims=True)
        assert np.abs(ratio[exact > 0] - 1).max() <= law.error(logits(name, dtype=loaded), setting)
        assert (found[exact == 0] == 0).all()


@pytest.mark.parametrize("name", SMALL)
def test_filters_are_those_of_the_exact_law(name: str) -> None:
    """Each alone, at borders that no rounding moves: what harness/filters.py keeps, which decides in integers."""
    chain, table = chains.build(name), logits(name)
    found, _ = filters(chain, table)
    rows = np.where(table > checkpoint.NEVER / 2, table, -np.inf)[: min(4, chain.classes - 1)]
    for key in ("top-k", "top-p", "min-p"):
        if key not in found:
            continue
        setting = found[key]
        settings = Settings(
            temperature=setting.temperature,
            top_k=setting.top_k or 0,
            top_p=setting.top_p or 1.0,
            min_p=setting.min_p or 0.0,
        )
        mine = law_of(table, setting)
        for number, row in enumerate(rows):
            exact = law_of_logits(row.astype(np.float32), settings, ENGINES["transformers"])
            assert not exact.undecided, (key, number)
            assert np.allclose(mine[number], exact.law.weights / exact.law.total, rtol=1e-6, atol=0)


def test_a_border_that_rounding_may_move_is_left_out() -> None:
    """In BF16 many tokens tie, and a sum of 32,768 numbers in FP32 may fall on either side of any p."""
    _, unclear = filters(chains.build("chain-64"), logits("chain-64", dtype=Loaded.BFLOAT16))
    assert "top-k" in unclear
    wide = law_of(logits("chain-32768"), Setting())[:-1]
    assert law.clear_top_p(wide, np.arange(0.5, 0.95, 0.05), 1e-5) is None


def test_bias_penalty_and_temperature_zero_by_hand() -> None:
    """Of two tokens: what is added, what is multiplied, and ties."""
    rows = np.log(np.array([[0.5, 0.25, 0.25]]))
    assert law_of(rows, Setting(logit_bias={1: np.log(2.0)}))[0] == pytest.approx([0.4, 0.4, 0.2])
    seen = np.array([[True, False, False]])
    raised = 0.5**1.3
    expected = np.array([raised, 0.25, 0.25]) / (raised + 0.5)
    assert law_of(rows, Setting(repetition_penalty=1.3), seen)[0] == pytest.approx(expected)
    assert law_of(rows[:, 1:], Setting(temperature=0.0))[0].tolist() == [0.5, 0.5]
    assert law_of(rows, Setting(temperature=0.5))[0] == pytest.approx(np.array([4, 1, 1]) / 6)


def test_what_depends_on_more_than_a_token_is_refused() -> None:
    """A projection that is not zero; tokens of one class with different embeddings."""
    chain = chains.build("chain-64")
    for name, says in (
        ("model.layers.0.mlp.down_proj.weight", "more than the last token"),
        ("model.embed_tokens.weight", "different embeddings"),
    ):
        tensors = {key: value.copy() for key, value in checkpoint.tensors_of(chain, "target").items()}
        tensors[name][-2, 3] = 0.5
        with pytest.raises(CampaignError, match=says):
            law.logits_of(tensors, chain, Loaded.FLOAT32, checkpoint.EPSILON)


def test_travel_is_the_chain_s_power() -> None:
    """And one that may end draws less and less."""
    chain, found = chains.build("chain-64"), law_of(logits("chain-64"), Setting())
    start = np.zeros(chain.classes)
    start[3] = 1
    rates = law.travel(found, chain.class_of, start, 3, -1)
    moves = found @ (chain.class_of[:, None] == np.arange(chain.classes))
    assert np.allclose(rates, [start, start @ moves, start @ moves @ moves])
    start[:] = 0
    start[-1] = 1
    ending = law.travel(found, chain.class_of, start, 3, chain.end)
    assert ending[1].sum() == pytest.approx(1 - found[-1, chain.end])


def test_pairs_are_summed_over_the_first_token() -> None:
    """Against a loop."""
    chain, found = chains.build("chain-64"), law_of(logits("chain-64"), Setting())
    joint = pair_law(found, chain)
    part = part_of(np.arange(chain.vocab), chain.vocab)
    expected = np.zeros(PARTS * PARTS)
    for first in range(chain.vocab):
        for second in range(chain.vocab):
            expected[part[first] * PARTS + part[second]] += found[5, first] * found[chain.class_of[first], second]
    assert np.allclose(joint[5], expected)
    assert np.allclose(joint.sum(axis=1), 1)
    share = np.full((1, chain.classes), 1 / chain.classes)
    assert match_chance(found, share) == pytest.approx(float(np.mean([(a * b).sum() for a in found for b in found])))


def test_pooling_looks_at_the_null_alone() -> None:
    """The rarest together until they expect enough; what is forbidden in no group; too few events decide nothing."""
    rows = np.array([[0.5, 0.3, 0.15, 0.05, 0.0], [0.5, 0.5, 0.0, 0.0, 0.0]])
    table, shares, strata, used = pooled(rows, np.array([100.0, 10.0]), 20)
    assert table.tolist() == [[2, 1, 0, 0, FORBIDDEN], [UNDECIDED, UNDECIDED, FORBIDDEN, FORBIDDEN, FORBIDDEN]]
    assert shares == pytest.approx([0.2, 0.3, 0.5])
    assert (strata.tolist(), used) == ([0, 0, 0], 100.0)


def test_ranks_are_uniform(rng: np.random.Generator) -> None:
    """Exactly: each token fills its own stretch of [0, 1), and all together fill it once."""
    found = law_of(logits("chain-64"), Setting())
    order = favoured(found, law_of(logits("chain-64", "draft"), Setting()))
    for first in (found, order):
        tokens = np.flatnonzero(found[7] > 0)
        low = uniform_ranks(found, first, np.full(len(tokens), 7), tokens, np.zeros(len(tokens)))
        high = uniform_ranks(found, first, np.full(len(tokens), 7), tokens, np.ones(len(tokens)))
        assert np.allclose(high - low, found[7][tokens])
        assert np.allclose(np.sort(low)[1:], np.sort(high)[:-1])
        assert np.array_equal(np.argsort(low), np.argsort(-first[7][tokens], kind="stable"))
    forbidden = np.flatnonzero(found[7] == 0)[:1]
    assert uniform_ranks(found, found, np.array([7]), forbidden, rng.random(1)).tolist() == [-1.0]


def test_ranks_of_pairs_and_under_a_penalty(rng: np.random.Generator) -> None:
    """Equal pairs lie below their chance, others above; seen tokens lie below their mass, others above."""
    chances = rng.random(1000)
    equal = rng.random(1000) < chances
    ranks = equal_ranks(chances, equal, rng.random(1000))
    assert ((ranks < chances) == equal).all()
    chain, table = chains.build("chain-64"), logits("chain-64")
    setting, prompt = Setting(repetition_penalty=1.3), (1, 2, 3)
    seen = np.zeros((1, chain.vocab), bool)
    seen[0, list(prompt)] = True
    known = law_of(table[chain.class_of[[3]]], setting, seen)[0]
    tokens = np.flatnonzero(known > 0)[:, None]
    prompts = [prompt] * len(tokens)
    low = penalty_ranks(table, setting, chain, prompts, tokens, np.zeros(tokens.shape))[:, 0]
    high = penalty_ranks(table, setting, chain, prompts, tokens, np.ones(tokens.shape))[:, 0]
    assert np.allclose(high - low, known[tokens[:, 0]])
    mass = known[[1, 2, 3]].sum()
    was = seen[0, tokens[:, 0]]
    assert (high[was] <= mass + 1e-9).all()
    assert (low[~was] >= mass - 1e-9).all()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    """A folder must be new or empty; a file that was altered, or of another role, is no checkpoint."""
    written = checkpoint.write("chain-64", "target", tmp_path / "model")
    assert {path.name for path in written} >= {"config.json", "tokenizer.json", checkpoint.WEIGHTS, checkpoint.MANIFEST}
    with pytest.raises(CampaignError, match="already holds 7 files"):
        checkpoint.write("chain-64", "target", tmp_path / "model")
    opened = checkpoint.open_checkpoint(tmp_path / "model", "target")
    assert opened.chain is chains.build("chain-64")
    with pytest.raises(CampaignError, match="the draft is wanted: pp3 checkpoint chain-64 --out DIR --draft"):
        checkpoint.open_checkpoint(tmp_path / "model", "draft")
    (tmp_path / "model" / "config.json").write_text("{}")
    with pytest.raises(CampaignError, match=r"config\.json hashes to"):
        checkpoint.open_checkpoint(tmp_path / "model", "target")
    (tmp_path / "model" / "config.json").unlink()
    with pytest.raises(CampaignError, match="No such file"):
        checkpoint.open_checkpoint(tmp_path / "model", "target")
    with pytest.raises(CampaignError, match="give a folder that pp3 checkpoint wrote"):
        checkpoint.open_checkpoint(tmp_path, "target")
    with pytest.raises(CampaignError, match="a checkpoint is made of chain-64"):
        checkpoint.write("sparse-tail", "target", tmp_path / "other")
