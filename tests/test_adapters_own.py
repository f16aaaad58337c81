"""Our own sampler through the trial contract: what it is given, and that both adapters agree."""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from own_pairs import OURS, WHO, law, problem

from pp3.harness.faults.triton_text import FILES
from pp3.harness.samplers import registry
from pp3.harness.samplers.contract import Batch, Description, Emission, Sampler
from pp3.harness.samplers.own import Kernels, Reference
from pp3.harness.seeds import Seed
from pp3.harness.trial.judge import conclude
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.problems import required
from pp3.harness.trial.run import batch_of, run
from pp3.harness.trial.survey import select
from pp3.harness.trial.tickets import VOCAB, places
from pp3.harness.verdict import Verdict
from pp3.kernels import reference, verifier

SEED = Seed(bytes(range(32)))


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


def test_all_pairs_apply_to_our_sampler_and_every_check_stands() -> None:
    """With the default 20,000 requests of each law."""
    trial = make(TrialSpec(), WHO, "test")
    assert [problem.name for problem in trial.problems] == list(OURS)
    assert set(trial.left_out) == {"ragged"}
    assert not [check.id for check in trial.checks if check.required and not check.df]
    assert {problem.vocab for problem in trial.problems} == {VOCAB}
    assert "equal" in required(WHO)


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
