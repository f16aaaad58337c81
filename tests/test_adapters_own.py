"""Our own sampler through the trial contract: what it is given, the law it is held to, and that both adapters agree."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from pp3.harness.faults.triton_text import FILES
from pp3.harness.inversion import invert
from pp3.harness.samplers import registry
from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Sampler
from pp3.harness.samplers.own import Kernels, Reference
from pp3.harness.seeds import Seed
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import Problem, choose, required
from pp3.harness.trial.run import batch_of, run
from pp3.harness.trial.seen import FINE, Seen, seen
from pp3.harness.trial.survey import select
from pp3.harness.trial.tickets import VOCAB, nearest_bf16, places, ticketed
from pp3.harness.verdict import Verdict
from pp3.kernels import reference, verifier
from pp3.targets import pairs
from pp3.targets.pairs import build
from pp3.targets.target import ONE

SEED = Seed(bytes(range(32)))
WHO = Reference().describe()
OURS = tuple(name for name in pairs.NAMES if name != "ragged")  # it takes no request with fewer drafts than others
DIGESTS = {
    "near": "751633cc85bf0032",
    "far": "2b06c5d89dd944d1",
    "equal": "5d001c7611be13c6",
    "void": "ac4c9eef82311e61",
    "context": "20e769a8097e1d77",
    "mixed": "af6d07a4929c0731",
    "peaked": "8129d85ad8da1f8f",
    "shared-noise": "3711dce06bf60541",
    "whole": "701c24e056b1040b",
    "greedy": "6ca1c3cd73919089",
    "mixed-greedy": "1b035ec371692946",
}


def law(name: str) -> Seen:
    """What our sampler is held to on a pair."""
    return seen(build(name), WHO)


def problem(name: str) -> Problem:
    """A pair as our sampler is tried on it."""
    (found,), _ = choose(WHO, [name])
    return found


def tried(sampler: Sampler, targets: list[str], requests: int, device: str = "cpu") -> tuple[Verdict, list[str]]:
    """A trial in this process."""
    trial = make(TrialSpec(targets=targets, requests=requests, pool=20), sampler.describe(), "test")
    seed = Seed.of(trial.plan_sha256, 1)
    judged = conclude(trial, run(trial, sampler, seed, device, lambda stage, done, total: None), device)
    return judged.verdict, judged.reasons


def numbers(emission: Emission) -> dict[str, npt.NDArray[np.int64]]:
    """Everything that was emitted, as int64 arrays."""
    fields = ("status", "tokens", "num_sampled", "proposed", "drafts", "support", "tickets")
    return {field: torch.as_tensor(getattr(emission, field)).cpu().numpy().astype(np.int64) for field in fields}


@pytest.mark.parametrize("name", OURS)
def test_the_laws_do_not_change_unnoticed(name: str) -> None:
    """A receipt names a law by this digest; it covers the tickets, and so the logits."""
    assert problem(name).law_sha256 == law(name).pair.digest()
    assert law(name).pair.digest()[:16] == DIGESTS[name]


@pytest.mark.parametrize("name", OURS)
def test_tokens_lie_at_their_places_and_nothing_beside_them(name: str) -> None:
    pair, padded = build(name), law(name).pair
    at = places(name)
    assert sorted(at.tolist()) == list(range(VOCAB))
    assert set(at[: pair.vocab].tolist()) != set(range(pair.vocab))
    at, beside = at[: pair.vocab], at[pair.vocab :]
    assert (padded.context_of[at] == pair.context_of).all()
    assert (padded.row_of == pair.row_of).all()
    assert (padded.name, padded.patterns, padded.joint, padded.starts) == (
        name,
        pair.patterns,
        pair.joint,
        pair.starts,
    )
    if name != "equal":
        assert (padded.weights[:, at] == pair.weights).all()
    tables = law(name).tables
    assert (padded.weights[:, beside] == 0).all()
    assert (padded.draft_weights[:, beside] == 0).all()
    assert (tables.target_probs[:, beside] == 0).all()
    assert np.isneginf(tables.draft_logits[:, beside]).all()
    assert (np.isneginf(tables.draft_logits[:, at]) == (pair.draft_weights == 0)).all()


def test_pairs_are_spread_each_in_its_own_way() -> None:
    assert len({places(name).tobytes() for name in pairs.NAMES}) == len(pairs.NAMES)


@pytest.mark.parametrize("name", OURS)
def test_every_sampled_request_has_the_temperature_of_a_ticket(name: str) -> None:
    pair, padded = build(name), law(name).pair
    assert [heat > 0 for heat in padded.temperatures] == [heat > 0 for heat in pair.temperatures]
    assert set(padded.temperatures) <= {0.0, reference.TAU}


@pytest.mark.parametrize("name", OURS)
def test_draft_logits_are_the_nearest_bf16(name: str) -> None:
    """Of log-probabilities times tau; torch rounds them too."""
    pair = build(name)
    given = law(name).tables.draft_logits[:, places(name)[: pair.vocab]]
    with np.errstate(divide="ignore"):
        wide = np.log(pair.draft_weights / ONE) * float(np.float32(reference.TAU))
    rounded = torch.tensor(wide.astype(np.float32)).to(torch.bfloat16).float().numpy()
    assert given.tobytes() == rounded.tobytes()


def test_half_way_is_rounded_to_even() -> None:
    """1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6."""
    values = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -np.inf, 0.0])
    assert nearest_bf16(values).tolist() == [1, 1 + 2.0**-6, -1, 1 + 2.0**-7, -np.inf, 0]


@pytest.mark.parametrize("name", OURS)
def test_each_end_of_a_tokens_tickets_draws_it(name: str) -> None:
    """The law is what the reference draws: first and last draw value of every token of every sampled row.

    The words are reached by the counter (harness/inversion.py): draw value d is w0 >> 8.
    """
    judged = law(name)
    for row in np.flatnonzero(judged.pair.heats > 0):
        tickets = judged.proposal[row]
        ends = np.cumsum(tickets)
        has = np.flatnonzero(tickets)
        wanted = np.concatenate([has, has])
        draws = np.concatenate([(ends - tickets)[has], ends[has] - 1])
        words = np.zeros((len(draws), 4), np.uint32)
        words[:, 0] = draws << 8
        rounds, positions = invert(words, 0)
        logits = np.repeat(judged.tables.draft_logits[row][None], len(draws), axis=0)
        sampled, keys = np.ones(len(draws), np.bool_), np.zeros(len(draws), np.uint64)
        drawn = reference.propose(logits, sampled, keys, rounds, positions)
        assert drawn.token.tolist() == wanted.tolist()
        assert ends[-1] == ONE


@pytest.mark.parametrize("name", OURS)
def test_temperature_0_drafts_the_first_of_the_ranks(name: str) -> None:
    judged = law(name)
    first = reference.allocate(judged.tables.draft_logits).first
    for row in np.flatnonzero(judged.pair.heats == 0):
        assert np.flatnonzero(judged.proposal[row]).tolist() == [first[row]]
        assert np.flatnonzero(judged.weights[row]).tolist() == [judged.pair.weights[row].argmax()]


@pytest.mark.parametrize("name", OURS)
def test_laws_are_integers_over_the_tickets_total(name: str) -> None:
    judged = law(name)
    assert judged.total == ONE
    for rows in (judged.weights, judged.proposal):
        assert (rows.sum(axis=1) == ONE).all()
    assert (judged.tables.target_probs.astype(np.float64) * ONE == judged.weights).all()
    assert (judged.kept == np.minimum(judged.weights, judged.proposal)).all()
    assert (judged.void == judged.weights).all()


def test_equal_laws_are_the_tickets_themselves() -> None:
    judged = law("equal")
    assert (judged.weights == judged.proposal).all()
    assert (judged.weights > 0).sum() == (build("equal").weights > 0).sum()


def test_a_pair_too_wide_is_refused() -> None:
    wide = np.full((2, VOCAB + 1), ONE // (VOCAB + 1), np.int64)
    wide[:, 0] += ONE - wide.sum(axis=1)
    pair = pairs.Pair(
        name="wide",
        why="",
        weights=wide,
        draft_weights=wide.copy(),
        row_of=np.arange(2)[:, None],
        context_of=np.zeros(VOCAB + 1, np.int64),
    )
    with pytest.raises(ValueError, match="wide: 41 tokens; want at most 40"):
        ticketed(pair)


def declared(**fields: Any) -> Description:
    """A sampler of tickets that declares more."""
    given: dict[str, Any] = {
        "name": "it",
        "kind": Kind.PIPELINE,
        "target_carrier": Carrier.PROBS,
        "draft_carrier": Carrier.TICKETS,
        "min_vocab": 32,
        "greedy": True,
    }
    return Description(**given | fields)


def test_all_pairs_apply_to_our_sampler_and_every_check_stands() -> None:
    """With the default 20,000 requests of each law."""
    trial = make(TrialSpec(), WHO, "test")
    assert [problem.name for problem in trial.problems] == list(OURS)
    assert set(trial.left_out) == {"ragged"}
    assert not [check.id for check in trial.checks if check.required and not check.df]
    assert {problem.vocab for problem in trial.problems} == {VOCAB}
    assert "equal" in required(WHO)


def test_who_else_may_draft_tickets() -> None:
    """A proposal can; a verifier is given none; logits of the target make `equal` a matter of rounding."""
    found, left = choose(declared(kind=Kind.PROPOSAL), pairs.NAMES)
    assert {problem.name for problem in found} == set(OURS) - {"void"}
    found, left = choose(declared(kind=Kind.VERIFIER), pairs.NAMES)
    assert not found
    assert left["near"] == "a batch has no tickets of given drafts: they are those that a proposal makes"
    found, left = choose(declared(target_carrier=Carrier.LOGITS), pairs.NAMES)
    assert set(left) == {"ragged"}
    assert {problem.target.total for problem in found} == {FINE}
    _, left = choose(declared(max_vocab=39), ["near"])
    assert left == {"near": "vocabulary 40; the sampler declares 32 to 39"}


def test_laws_of_logits_and_tickets_are_the_tickets_on_a_finer_grid() -> None:
    fine, own = seen(build("near"), declared(target_carrier=Carrier.LOGITS)), law("near")
    assert (fine.proposal == own.proposal * (FINE // ONE)).all()


def batch(name: str, count: int, first: int = 0, device: str = "cpu") -> Batch:
    """Some requests of a pair."""
    return batch_of(problem(name), WHO, SEED, first, first + count, device)


@pytest.mark.parametrize("name", OURS)
def test_the_kernels_emit_what_the_reference_emits(name: str) -> None:
    """Bit for bit, tickets and all; in the interpreter, 64 requests from anywhere."""
    given = batch(name, 64, 12_345)
    got, expected = numbers(Kernels().run(given)), numbers(Reference().run(given))
    for field, values in expected.items():
        assert (got[field] == values).all(), field
    assert (expected["status"] == reference.OK).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", OURS)
def test_the_kernels_on_a_gpu_emit_what_the_reference_emits(name: str) -> None:
    """Bit for bit; 2^16 requests in one launch."""
    got, expected = (numbers(sampler.run(batch(name, 1 << 16, 12_345, "cuda"))) for sampler in (Kernels(), Reference()))
    for field, values in expected.items():
        assert (got[field] == values).all(), field


@pytest.mark.gpu
def test_the_kernels_pass_on_a_gpu() -> None:
    assert tried(Kernels(), [], 200_000, "cuda") == (Verdict.PASS, [])


@pytest.mark.parametrize("name", ["mixed", "mixed-greedy"])
def test_requests_start_in_contexts_of_their_own(name: str) -> None:
    given, judged = batch(name, 300), law(name)
    found = numbers(Reference().run(given))
    start = np.arange(300) % judged.starts
    for j in range(given.depth):
        assert (judged.proposal[judged.row_of[j, start], found["proposed"][:, j]] > 0).all()
    assert (judged.weights[judged.row_of[0, start], found["tokens"][:, 0]] > 0).all()


def test_draws_are_addressed() -> None:
    """A request emits the same in any company."""
    whole, part = batch("context", 400), batch("context", 40, 200)
    expected = numbers(Reference().run(whole))
    for field, values in numbers(Reference().run(part)).items():
        assert (values == expected[field][200:240]).all(), field


def test_the_reference_passes() -> None:
    """A fifth of the default requests, on the pairs whose checks all stand then with pools of 20."""
    targets = ["near", "far", "equal", "void", "context", "shared-noise", "greedy", "mixed-greedy"]
    assert tried(Reference(), targets, 4_000) == (Verdict.PASS, [])


class Wrong:
    """Our reference with one thing changed in what it is given or returns."""

    def __init__(self, what: str) -> None:
        self.what = what

    def describe(self) -> Description:
        """As the right one."""
        return WHO

    def run(self, batch: Batch) -> Emission:
        """One round, wrong."""
        found = Reference().run(batch)
        if self.what == "a token that neither law has":
            found.tokens[0, found.num_sampled[0] - 1] = places(batch.target.name)[-1]
        else:
            moved = np.argsort(places(batch.target.name))
            for field in (found.tokens, found.drafts, found.proposed):
                field[:] = np.where(field >= 0, moved[field], field)
        return found


@pytest.mark.parametrize("what", ["a token that neither law has", "tokens by their numbers in the pair"])
def test_a_wrong_place_fails(what: str) -> None:
    """One token of one request is enough where no law has it."""
    verdict, reasons = tried(Wrong(what), ["far"], 1_000)
    assert verdict is Verdict.FAIL
    assert "probability 0" in reasons[0]


def test_the_catalogue_has_both() -> None:
    for name, maker in (("pp3-top32-kernels", Kernels), ("pp3-top32-reference", Reference)):
        entry = registry.find(name)
        assert isinstance(registry.load(entry), maker)
        assert registry.load(entry).describe().name == name
        assert registry.missing(entry, gpu=False) == ""


def test_they_say_what_they_are_made_of() -> None:
    """The files of the numbers by their digests; device code is the kernels' alone."""
    kernels, plain = (dict(sampler.describe().files) for sampler in (Kernels(), Reference()))
    text = Path(str(verifier.__file__)).read_bytes()
    assert kernels["pp3/kernels/verifier.py"] == hashlib.sha256(text).hexdigest()
    device_code = {f"{name}.py" for name in FILES}  # what faults are planted in is every file with device code
    assert {name.rpartition("/")[2] for name in set(kernels) - set(plain)} == device_code
    assert set(plain) - set(kernels) == {"pp3/harness/samplers/reference.py"}


def test_a_survey_waits_for_them_where_they_are_fast() -> None:
    """The kernels on a GPU, the reference on a CPU; by name anywhere."""
    for gpu, fast, slow in ((True, "kernels", "reference"), (False, "reference", "kernels")):
        chosen, left = select([], gpu)
        assert f"pp3-top32-{fast}" in {entry.name for entry in chosen}
        assert "name it" in left[f"pp3-top32-{slow}"]
    chosen, left = select(["pp3-top32-kernels"], False)
    assert ([entry.name for entry in chosen], left) == (["pp3-top32-kernels"], {})
