"""The adapters of transformers: with stand-ins for its functions, and with the real ones where it is installed."""

import sys
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from pp3 import qualify
from pp3.harness.samplers.contract import Batch, Emission
from pp3.harness.samplers.transformers_filters import PROCESSORS, Filters
from pp3.harness.samplers.transformers_speculative import UTILS, Speculative
from pp3.harness.verdict import Verdict

REAL = find_spec("transformers") is not None
REQUESTS = 2_000  # of each law
Tokens = tuple[torch.Tensor, torch.Tensor]


def judge(
    candidate_input_ids: torch.Tensor,
    candidate_logits: torch.Tensor,
    candidate_length: int,
    new_logits: torch.Tensor,
    residual: bool = True,
) -> Tokens:
    """Speculative sampling of one request; with `residual` off, a rejected draft is replaced from the target."""
    drafts = candidate_input_ids[0, -candidate_length:]
    q, p = candidate_logits[0].softmax(-1), new_logits[0].softmax(-1)
    place = torch.arange(candidate_length)
    kept = int((torch.rand(candidate_length) < p[place, drafts] / q[place, drafts]).long().cumprod(0).sum())
    law = (p[kept] - q[kept]).clamp(min=0) if residual and kept < candidate_length else p[kept]
    return torch.cat([drafts[:kept], torch.multinomial(law, 1)])[None], torch.tensor(kept)


class Mixin:
    """Temperature, top-k, top-p and min-p; ties of top-k kept. Another order is a fault."""

    order = ("top_k", "top_p", "min_p")

    def _get_logits_processor(self, settings: SimpleNamespace, input_ids_seq_length: int) -> Any:
        def process(prompt: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            assert prompt.shape == (len(scores), input_ids_seq_length)
            scores = scores / settings.temperature
            for name in self.order:
                least = LEAST[name](scores.softmax(-1), getattr(settings, name))
                scores = scores.masked_fill(scores.softmax(-1) < least, -torch.inf)
            return scores

        return process


def least_of_top_k(probs: torch.Tensor, k: int) -> torch.Tensor:
    """The least probability that is kept, [n, 1]."""
    return probs.topk(min(k or probs.shape[1], probs.shape[1])).values[:, -1:]


def least_of_top_p(probs: torch.Tensor, p: float) -> torch.Tensor:
    falling = probs.sort(descending=True).values
    kept = falling.cumsum(-1) - falling < p
    return falling.gather(1, kept.sum(-1, keepdim=True) - 1)


def least_of_min_p(probs: torch.Tensor, p: float | None) -> torch.Tensor:
    return (p or 0.0) * probs.amax(-1, keepdim=True)


LEAST: dict[str, Any] = {"top_k": least_of_top_k, "top_p": least_of_top_p, "min_p": least_of_min_p}


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of the parts that the adapters use."""
    parts = {name: ModuleType(name) for name in ("transformers", UTILS, PROCESSORS)}
    for module in parts.values():
        module.__file__ = __file__
    vars(parts["transformers"]).update(__version__="0", GenerationConfig=SimpleNamespace)
    vars(parts[UTILS]).update(_speculative_sampling=judge, GenerationMixin=Mixin)
    for name, module in parts.items():
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def real() -> None:
    """The package itself, or a named skip."""
    if not REAL:
        pytest.skip("transformers is not installed")


class Misfed:
    """A batch that gives one tensor for another."""

    def __init__(self, batch: Batch, **other: str) -> None:
        self.batch, self.other = batch, other

    def __len__(self) -> int:
        return len(self.batch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.batch, self.other.get(name, name))


class MisfedSpeculative(Speculative):
    """It is fed with other tensors than it asks for."""

    def __init__(self, **other: str) -> None:
        super().__init__()
        self.other = other

    def run(self, batch: Batch) -> Emission:
        return super().run(Misfed(batch, **self.other))  # type: ignore[arg-type]  # it stands in for a batch


class MisfedFilters(Filters):
    """It is fed with probabilities."""

    def run(self, batch: Batch) -> torch.Tensor:
        return super().run(Misfed(batch, logits="probs"))  # type: ignore[arg-type]  # it stands in for a batch


class Misplaced(Filters):
    """Each row gets the token of the row before it."""

    def run(self, batch: Batch) -> torch.Tensor:
        return super().run(batch).roll(1)


class Shortened(Speculative):
    """The last token of a round is not counted."""

    def run(self, batch: Batch) -> Emission:
        emission = super().run(batch)
        return Emission(tokens=emission.tokens, num_sampled=(emission.num_sampled - 1).clamp(min=1))


FEEDS = pytest.mark.parametrize(
    ("target", "other"),
    [
        pytest.param("shared-noise", {"target_logits": "target_probs"}, id="target probabilities for logits"),
        pytest.param("shared-noise", {"scaled_draft_logits": "draft_probs"}, id="draft probabilities for logits"),
        pytest.param("context", {"scaled_draft_logits": "draft_logits"}, id="draft logits before temperature"),
    ],
)


def verdict_of(sampler: Any, target: str) -> Verdict:
    report = qualify(sampler, targets=[target], requests=REQUESTS, device="cpu")
    print(report)
    return report.verdict


@pytest.mark.usefixtures("stand_in")
def test_the_stand_ins_pass() -> None:
    assert verdict_of(Speculative(), "shared-noise") is Verdict.PASS
    assert verdict_of(Speculative(), "far") is Verdict.PASS
    assert verdict_of(Filters(), "rows-of-4") is Verdict.PASS
    assert verdict_of(Filters(), "rows-of-12") is Verdict.PASS


@pytest.mark.usefixtures("stand_in")
def test_a_planted_fault_of_the_verifier_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = Speculative()
    monkeypatch.setattr(sampler, "more", {"residual": False})
    assert verdict_of(sampler, "shared-noise") is Verdict.FAIL


@pytest.mark.usefixtures("stand_in")
def test_a_planted_order_of_the_filters_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mixin, "order", ("top_p", "top_k", "min_p"))
    assert verdict_of(Filters(), "rows-of-4") is Verdict.FAIL


@pytest.mark.usefixtures("stand_in")
def test_a_planted_fault_of_an_adapter_fails() -> None:
    assert verdict_of(Misplaced(), "rows-of-4") is Verdict.FAIL
    assert verdict_of(Shortened(), "shared-noise") is Verdict.FAIL


@pytest.mark.usefixtures("stand_in")
def test_filters_fed_with_probabilities_fail() -> None:
    assert verdict_of(MisfedFilters(), "rows-of-12") is Verdict.FAIL


@FEEDS
@pytest.mark.usefixtures("stand_in")
def test_the_wrong_carrier_fails(target: str, other: dict[str, str]) -> None:
    assert verdict_of(MisfedSpeculative(**other), target) is Verdict.FAIL


@pytest.mark.usefixtures("stand_in")
def test_threads_are_left_as_they_were() -> None:
    before = torch.get_num_threads()
    verdict_of(Speculative(), "shared-noise")
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("real")
def test_real_speculation_passes() -> None:
    assert verdict_of(Speculative(), "far") is Verdict.PASS


@pytest.mark.parametrize("target", ["rows-of-4", "rows-of-10", "rows-of-12", "rows-of-24"])
@pytest.mark.usefixtures("real")
def test_real_filters_pass(target: str) -> None:
    assert verdict_of(Filters(), target) is Verdict.PASS


@FEEDS
@pytest.mark.usefixtures("real")
def test_real_speculation_fails_on_the_wrong_carrier(target: str, other: dict[str, str]) -> None:
    assert verdict_of(MisfedSpeculative(**other), target) is Verdict.FAIL


@pytest.mark.usefixtures("real")
def test_real_filters_fail_on_probabilities() -> None:
    assert verdict_of(MisfedFilters(), "rows-of-12") is Verdict.FAIL


@pytest.mark.parametrize("seed", [5528393, 24368689])
@pytest.mark.usefixtures("real")
def test_a_coin_of_zero_keeps_an_impossible_draft(seed: int) -> None:
    """r <= ratio: one draft in 2^24 that the target forbids is emitted; the first number of these seeds is 0."""
    sampler = Speculative()
    proposal = torch.tensor([[[0.0, 0.0]]])
    target = torch.tensor([[[-torch.inf, 0.0], [0.0, 0.0]]])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        emitted, kept = sampler.judge(torch.tensor([[0]]), proposal, 1, target, **sampler.more)
    assert int(kept) == 1
    assert int(emitted[0, 0]) == 0


@pytest.mark.usefixtures("real")
def test_a_rejection_without_residual_raises() -> None:
    """The target is the draft's law but for one rounding, downwards: 0 / 0. This seed's first number is 1 - 2^-24."""
    sampler = Speculative()
    rest = [-0.563052773475647, -0.8922905325889587, -0.05825017765164375]
    proposal = torch.tensor([[[-1.0276086330413818, *rest]]])
    target = torch.tensor([[[-1.0276087522506714, *rest], [0.0] * 4]])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(22771378)
        with pytest.raises(RuntimeError, match="nan"):
            sampler.judge(torch.tensor([[0]]), proposal, 1, target, **sampler.more)
