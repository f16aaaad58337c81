"""The overlays of the real files: reviewed bytes, nothing else touched, and what they draw in the interpreter.

Not run where `make image` has not been, or without LibCST.
"""

import ast
import difflib
import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from overlay_samplers import Forgetful, Halved, Mended, Off, Swapped, image_of, opened_in

from pp3.harness.image.find import find
from pp3.harness.image.pins import CLASSIC
from pp3.harness.overlay import judge, prepare, problems, qualify, sources
from pp3.harness.overlay.load import VERIFIER_MODULE, Opened, open_overlay
from pp3.harness.overlay.pins import OVERLAYS, RUNNER, SAMPLER, SEMANTIC, VOID
from pp3.harness.overlay.pipeline import Overlay
from pp3.harness.overlay.refusal import OverlayError
from pp3.harness.seeds import Seed
from pp3.harness.transport import admission, buffers
from pp3.harness.trial.plan import Trial, TrialSpec
from pp3.harness.verdict import Verdict

VERSIONS = pytest.mark.parametrize("version", OVERLAYS)
VOCAB, DEPTH, N = 40, 2, 24
TOUCHED = {
    SAMPLER: {
        "_compute_local_logits_stats_kernel",
        "_compute_global_logprobs_and_logsumexp",
        "_resample_kernel",
        "rejection_sample",
    },
    RUNNER: {"_verify"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the overlays of this file's tests lie."""
    return tmp_path_factory.mktemp("overlays")


def opened(folder: Path, version: str) -> Opened:
    """A skip outside of the memory."""
    image_of(version)
    return opened_in(folder, version)


@VERSIONS
def test_the_difference_lies_in_the_named_functions(version: str, folder: Path) -> None:
    """By line numbers and Python's parser: every line that left or came is in a named function, or is the marker."""
    before = sources.checked(image_of(version))[1]
    opened(folder, version)
    after = prepare.read(folder / version)[1]
    for name, touched in TOUCHED.items():
        assert hashlib.sha256(after[name]).hexdigest() == OVERLAYS[version][name].result
        old, new = (content.decode().splitlines() for content in (before[name], after[name]))
        owners, found = (_owners(old), _owners(new)), set()
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
            if tag != "equal":
                found |= {owners[0][line] for line in range(a, b)} | {owners[1][line] for line in range(c, d)}
        assert found - {"", "PP3"} == touched
        loose = [line for line in new if line not in old and "PP3" in line and not line.startswith(" ")]
        assert len(loose) == 2


def _owners(lines: list[str]) -> list[str]:
    """The function that each line lies in; "PP3" for the notice and the marker, "" for an empty line beside it."""
    owners = ["" if not line.strip() else f"line {at + 1}" for at, line in enumerate(lines)]
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            owners[node.lineno - 1 : node.end_lineno] = [node.name] * (int(node.end_lineno or 0) - node.lineno + 1)
    marks = ("# Changed by PP3", "PP3_")
    return ["PP3" if line.startswith(marks) else owner for line, owner in zip(lines, owners, strict=True)]


@VERSIONS
def test_no_engine_and_no_classic_sampler(version: str, folder: Path) -> None:
    found = opened(folder, version)
    assert [name for name in sys.modules if name.split(".")[0] == "vllm"] == []
    loaded = {*found.overlay.modules, *found.image.modules}
    assert CLASSIC.removesuffix(".py").replace("/", ".") not in loaded
    assert CLASSIC not in found.image.files
    assert found.overlay.intruders() == []


def call(found: Opened, rng: np.random.Generator, temperature: float = 1.0, **changed: Any) -> tuple[Any, Any]:
    """The overlay's `rejection_sample` on N full rounds over VOCAB tokens; `changed` replaces arguments."""
    rows, slots = N * (DEPTH + 1), torch.arange(N, dtype=torch.int32)
    q = rng.dirichlet(np.ones(VOCAB), (N, DEPTH)).astype(np.float32)
    drafts = rng.integers(0, VOCAB, (N, DEPTH))
    arguments = {
        "target_logits": torch.tensor(rng.normal(0, 1, (rows, VOCAB)), dtype=torch.float32),
        "draft_logits": torch.tensor(q),
        "draft_sampled": torch.tensor(np.pad(drafts, ((0, 0), (1, 0))).ravel()),
        "cu_num_logits": torch.arange(0, rows + 1, DEPTH + 1, dtype=torch.int32),
        "pos": torch.arange(rows, dtype=torch.int64) % (DEPTH + 1) + 64,
        "idx_mapping": slots,
        "expanded_idx_mapping": slots.repeat_interleave(DEPTH + 1),
        "expanded_local_pos": torch.arange(DEPTH + 1, dtype=torch.int32).repeat(N),
        "temperature": torch.full((N,), temperature),
        "seed": torch.arange(N, dtype=torch.int64) + 5,
        "num_speculative_steps": DEPTH,
        "draft_semantic": SEMANTIC,
    } | changed
    with np.errstate(all="ignore"):
        tokens, lengths = found.overlay.entries["rejection_sample"](**arguments)
    return tokens.numpy(), lengths.numpy()


ONES = torch.ones(N, DEPTH, VOCAB) / VOCAB
GUARDED: list[tuple[str, dict[str, Any], str]] = [
    ("no semantic", {"draft_semantic": None}, r"draft_logits carries None; this overlay takes 'pp3-sampler-overlay"),
    ("another semantic", {"draft_semantic": "logits"}, r"draft_logits carries 'logits'"),
    ("BF16", {"draft_logits": ONES.bfloat16()}, r"probabilities are torch.bfloat16 over 40 tokens"),
    ("a smaller vocabulary", {"draft_logits": ONES[..., 1:].contiguous()}, r"over 39 tokens; .* the target's 40"),
    ("a larger vocabulary", {"draft_logits": torch.ones(N, DEPTH, VOCAB + 1)}, r"over 41 tokens"),
    ("block", {"use_block_verification": True}, r"this overlay knows standard rejection only"),
    ("synthetic", {"synthetic_conditional_rates": torch.ones(DEPTH)}, r"standard rejection only"),
]


@pytest.mark.parametrize(("what", "changed", "message"), GUARDED, ids=[row[0] for row in GUARDED])
@VERSIONS
def test_what_the_sampler_overlay_refuses(
    version: str, what: str, changed: dict[str, Any], message: str, folder: Path, rng: np.random.Generator
) -> None:
    with pytest.raises(ValueError, match=message):
        call(opened(folder, version), rng, **changed)


def test_fly_is_refused(folder: Path, rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="standard rejection only"):
        call(opened(folder, "0.33.0"), rng, fly_window_size=1)


@VERSIONS
def test_certain_rounds(version: str, folder: Path, rng: np.random.Generator) -> None:
    """q of 1 on the draft and p of 1: kept. q on the draft and p elsewhere: replaced by p. No q at all: never kept."""
    drafts = torch.tensor(rng.integers(0, VOCAB, (N, DEPTH)))
    ids = torch.cat([torch.zeros(N, 1, dtype=torch.int64), drafts], dim=1)
    q = torch.nn.functional.one_hot(drafts, VOCAB).float()
    sure = torch.full((N, DEPTH + 1, VOCAB), -float("inf"))
    sure.scatter_(2, torch.cat([drafts, drafts[:, :1]], dim=1)[..., None], 0.0)
    found = opened(folder, version)
    given: dict[str, Any] = {"draft_sampled": ids.ravel(), "target_logits": sure.reshape(-1, VOCAB)}
    tokens, lengths = call(found, rng, **given, draft_logits=q)
    assert (lengths == DEPTH + 1).all()
    assert (tokens[:, :DEPTH] == drafts.numpy()).all()
    other = sure.roll(1, 2)
    tokens, lengths = call(found, rng, **(given | {"target_logits": other.reshape(-1, VOCAB)}), draft_logits=q)
    assert (lengths == 1).all()
    assert (tokens[:, 0] == (drafts[:, 0].numpy() + 1) % VOCAB).all()
    tokens, lengths = call(found, rng, **given, draft_logits=torch.zeros(N, DEPTH, VOCAB))
    assert (lengths == 1).all()
    assert (tokens[:, 0] == drafts[:, 0].numpy()).all()


@VERSIONS
def test_an_empty_residual_draws_from_the_target(version: str, folder: Path, rng: np.random.Generator) -> None:
    """Where q covers p everywhere a rejected draft is replaced from p: never by a token that p forbids."""
    allowed = np.zeros(VOCAB, bool)
    allowed[[7, 11, 30]] = True
    logits = torch.full((N * (DEPTH + 1), VOCAB), -float("inf"))
    logits[:, torch.tensor(allowed)] = 0.0
    q = torch.ones(N, DEPTH, VOCAB)  # no law: it only has to cover p
    drafts = torch.tensor(rng.choice([7, 11, 30], (N, DEPTH)))
    ids = torch.cat([torch.zeros(N, 1, dtype=torch.int64), drafts], dim=1).ravel()
    tokens, lengths = call(opened(folder, version), rng, target_logits=logits, draft_logits=q, draft_sampled=ids)
    rejected = lengths == 1
    assert rejected.sum() > N // 4
    assert allowed[tokens[rejected, 0]].all()
    assert len({*tokens[rejected, 0]}) == 3


@VERSIONS
def test_the_temperature_does_not_touch_q(version: str, folder: Path, rng: np.random.Generator) -> None:
    """The same rounds at two temperatures of sampled requests: target rows come processed, so nothing may change."""
    found, state = opened(folder, version), rng.bit_generator.state
    first = call(found, rng, temperature=1.0)
    rng.bit_generator.state = state
    second = call(found, rng, temperature=0.25)
    assert (first[1] == second[1]).all()
    live = np.arange(DEPTH + 1) < first[1][:, None]
    assert (first[0][live] == second[0][live]).all()


@VERSIONS
def test_the_runner_overlay_takes_no_foreign_carrier(version: str, folder: Path) -> None:
    sampler = Overlay(opened(folder, version), "cpu")
    runner = sampler._opened.runner(SimpleNamespace(apply_sampling_params=lambda logits, *rest: logits), spec(), "cpu")
    given = dict.fromkeys(runner._verify.__code__.co_varnames[1 : runner._verify.__code__.co_argcount])
    with pytest.raises(ValueError, match="draft_logits has no pp3_semantic: it is no PP3 carrier"):
        runner._verify(**(given | {"draft_logits": torch.zeros(1, 1, 1)}))


def spec() -> SimpleNamespace:
    """What a RejectionSampler is made with."""
    return SimpleNamespace(
        num_speculative_tokens=DEPTH,
        enable_adaptive_verification=False,
        rejection_sample_method="standard",
        fly_entropy_threshold=0.3,
        fly_entropy_top_k=3,
    )


def trial_of(sampler: Overlay, requests: int, *targets: str) -> Trial:
    """A small plan."""
    return problems.trial(TrialSpec(sampler="vllm-overlay", requests=requests, targets=[*targets]), sampler.describe())


def quiet(stage: str, done: int, total: int) -> None:
    """No progress."""


def qualified(kind: type[Overlay], folder: Path, pairs: int = 0) -> tuple[Any, Any, Any]:
    """196 requests of a target with void drafts, and pairs: measured, pairs, judgement."""
    sampler = kind(opened(folder, "0.33.0"), "cpu")
    trial = trial_of(sampler, 49, "invalidated")
    measured, found = qualify.run(trial, sampler, Seed.of(trial.plan_sha256, 1), pairs, quiet)
    return measured, found, judge.conclude(trial, measured, "a CPU in Triton's interpreter", found)


def test_a_small_qualification(folder: Path) -> None:
    """Nothing is found, at a size too small for a PASS."""
    measured, pairs, judged = qualified(Overlay, folder, 12)
    assert judged.verdict is Verdict.INCONCLUSIVE, judged.sentence
    assert (measured.broken, measured.breaches, measured.strays) == ({}, {}, [])
    assert pairs == [{"depth": 5, "first": {}, "mismatches": 0, "pairs": 12, "target": "invalidated"}]


@pytest.mark.soak
@pytest.mark.parametrize("kind", [Halved, Swapped, Mended])
def test_a_wrong_one_is_found_at_the_same_size(kind: type[Overlay], folder: Path) -> None:
    _, _, judged = qualified(kind, folder)
    assert judged.verdict in (Verdict.FAIL, Verdict.INVALID), judged.sentence


@pytest.mark.soak
def test_a_lost_proposal_is_not_kept_even_where_the_runner_is_not_told(folder: Path) -> None:
    measured, _, judged = qualified(Forgetful, folder)
    assert judged.verdict is Verdict.INCONCLUSIVE, judged.sentence
    assert measured.breaches == {}


def test_a_pair_that_differs_fails(folder: Path) -> None:
    sampler = Off(opened(folder, "0.33.0"), "cpu")
    trial = trial_of(sampler, 8, "invalidated")
    measured, pairs = qualify.run(trial, sampler, Seed.of(trial.plan_sha256, 1), 4, quiet)
    judged = judge.conclude(trial, measured, "a CPU", pairs)
    assert pairs[0]["mismatches"] == 4
    assert judged.verdict is Verdict.FAIL
    assert judged.sentence.startswith(
        "FAIL: the overlays of vLLM 0.33.0 on a CPU do not emit the target's law, on 1 targets in 32 requests: "
        "invalidated: 4 of 4 temperature-0 pairs differ (mixed against point-mass: request "
    )


def test_the_marker_is_where_admission_finds_it(folder: Path) -> None:
    assert buffers.SEMANTIC == SEMANTIC == admission.SAMPLER_MARKER
    assert VOID == admission.RUNNER_MARKER
    found = opened(folder, "0.33.0")
    assert found.overlay.modules[VERIFIER_MODULE].PP3_SAMPLER_OVERLAY == SEMANTIC
    assert not hasattr(found.image.modules[VERIFIER_MODULE], "PP3_SAMPLER_OVERLAY")


def test_another_image_than_the_overlays(folder: Path) -> None:
    opened(folder, "0.33.0")
    with pytest.raises(OverlayError, match=r"was made of vllm 0.33.0, the image is 0.30.0: give that one"):
        open_overlay(image_of("0.30.0"), folder / "0.33.0")


def test_the_image_itself_is_as_it_was(folder: Path) -> None:
    """The release's verifier beside the overlay's has the release's bytes."""
    found = opened(folder, "0.33.0")
    assert found.image.files[SAMPLER] == OVERLAYS["0.33.0"][SAMPLER].source
    assert found.overlay.files[SAMPLER] == OVERLAYS["0.33.0"][SAMPLER].result
    assert find(image_of("0.33.0")).matches_pin
