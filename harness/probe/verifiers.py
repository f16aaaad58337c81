"""The verifier's contestants: ours, vLLM's of model runner V2, SGLang's and FlashInfer's chains, on the same laws.

Each is handed the carriers that it takes: probabilities and tickets, logits of both laws, or probabilities of both. The
drafts are those of our proposal. What a caller would prepare once (slots, buffers, coins) is made outside the times.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from pp3.harness.errors import PP3Error
from pp3.harness.image.pins import Part as ImagePart
from pp3.harness.probe import bits, peers, rows
from pp3.harness.probe.bits import POISON
from pp3.harness.probe.plan import CHECKED, OURS, Case, Kind, Part, contenders
from pp3.harness.probe.timing import Contestant
from pp3.kernels import proposal, reference, verifier
from pp3.kernels.reference import ONE, TAU

KEYS_SEED, COINS_SEED = 0x5050_3352, 0x5050_3353
SEED, OFFSET, BASE = 1, 0, 50
SHARPER = 1.25  # target logits over draft logits: laws that differ, and drafts that are often kept
TEMPERATURE = 1.0
Emitted = tuple[torch.Tensor, torch.Tensor | None]  # tokens [batch, depth + 1]; num_sampled [batch], if it says so


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Round:
    """What a round of a case judges."""

    target_probs: torch.Tensor  # [batch, depth + 1, vocab] fp32
    drafts: proposal.Drafts
    draft_probs: torch.Tensor  # [batch, depth, vocab] fp32, tickets over 2^24
    sampled: torch.Tensor  # [batch] int32
    keys: torch.Tensor  # [batch] int64
    rounds: torch.Tensor  # [batch] int64
    positions: torch.Tensor  # [batch] int64


def make(case: Case, device: str) -> Round:
    """Laws of random rows, and drafts of our proposal. A large case repeats a thousandth of its rows."""
    batch, depth, vocab = case.batch, case.depth, case.vocab
    distinct = min(batch, 1000)
    logits = rows.make(Kind.RANDOM, (distinct, depth + 1, vocab), device)
    logits = logits[torch.arange(batch, device=device) % distinct]
    draw = np.random.default_rng(KEYS_SEED)
    keys, rounds = (torch.tensor(draw.integers(0, 1 << 62, batch), device=device) for _ in range(2))
    positions = torch.tensor(draw.integers(0, 1 << 20, batch), device=device)
    sampled = torch.ones(batch, dtype=torch.int32, device=device)
    drafts = proposal.empty_drafts(batch, depth, logits.device)
    for column in range(depth):
        proposal.propose(logits[:, column], sampled, keys, rounds, positions, TAU, out=drafts, column=column)
    draft_probs = torch.zeros(batch, depth, vocab, device=device)
    draft_probs.scatter_(2, drafts.ids.long(), drafts.tickets.float() / ONE)
    target_probs = (logits.float() * (SHARPER / TAU)).softmax(dim=-1)
    return Round(
        target_probs=target_probs,
        drafts=drafts,
        draft_probs=draft_probs,
        sampled=sampled,
        keys=keys,
        rounds=rounds,
        positions=positions,
    )


class Ours:
    """Our verifier on a round."""

    def __init__(self, case: Case, judged: Round) -> None:
        self.case, self.judged = case, judged
        ints: dict[str, Any] = {"dtype": torch.int32, "device": judged.target_probs.device}
        batch, columns = case.batch, case.depth + 1
        self.out = verifier.Verified(
            torch.empty(batch, **ints), torch.empty(batch, columns, **ints), torch.empty(batch, **ints)
        )
        step = max(1, batch // CHECKED)
        self.rows = slice(0, step * min(batch, CHECKED), step)
        self.right = self._reference()

    def step(self, _set: int) -> None:
        """One round."""
        one = self.judged
        verifier.verify(
            one.target_probs,
            one.drafts.token,
            one.drafts.ids,
            one.drafts.tickets,
            one.sampled,
            one.keys,
            one.rounds,
            one.positions,
            out=self.out,
        )

    def poison(self) -> None:
        """Fill the outputs with what no round writes."""
        for tensor in self.out:
            tensor.fill_(POISON)

    def compared(self, when: str) -> dict[str, Any]:
        """The checked rows of the outputs, held against the reference."""
        found = [tensor[self.rows].cpu().numpy() for tensor in self.out]
        return bits.row_of(f"{self.case.id}/{when}", list(self.right), found, self.right.status == reference.FAILED)

    def contestant(self) -> Contestant:
        """To be timed; its bits are compared apart."""
        return Contestant(name=OURS, step=self.step, check=lambda _rounds: "")

    def _reference(self) -> reference.Verification:
        """What the reference emits for the checked rows, some at once."""
        one, chunk = self.judged, 1000
        there = (one.target_probs, one.drafts.token, one.drafts.ids, one.drafts.tickets)
        carried = [tensor[self.rows].cpu().numpy() for tensor in there]
        addressed = [
            tensor[self.rows].cpu().numpy().view(np.uint64) for tensor in (one.keys, one.rounds, one.positions)
        ]
        sampled = np.ones(len(carried[0]), np.bool_)
        parts = [
            tuple(values[at : at + chunk] for values in (*carried, sampled, *addressed))
            for at in range(0, len(sampled), chunk)
        ]
        found = bits.in_threads(reference.verify, parts)
        names = reference.Verification._fields
        return reference.Verification(*(np.concatenate([getattr(part, name) for part in found]) for name in names))


def vllm(case: Case, judged: Round) -> Callable[[], Emitted]:
    """vLLM's rejection_sample, a slot a request."""
    from pp3.harness.samplers.vllm_v2 import open_verifier

    check = open_verifier(peers.vllm(ImagePart.V2))
    batch, columns, device = case.batch, case.depth + 1, judged.target_probs.device
    index = torch.arange(batch, dtype=torch.int32, device=device)
    steps = torch.arange(columns, dtype=torch.int32, device=device)
    last = torch.zeros(batch, 1, dtype=torch.int32, device=device)
    given: dict[str, Any] = {
        "target_logits": judged.target_probs.log().view(batch * columns, case.vocab),
        "draft_logits": judged.draft_probs.log(),
        "draft_sampled": torch.cat([last, judged.drafts.token], dim=1).view(-1),
        "cu_num_logits": torch.arange(0, batch * columns + 1, columns, dtype=torch.int32, device=device),
        "pos": (steps.long() + BASE).repeat(batch),
        "idx_mapping": index,
        "expanded_idx_mapping": index.repeat_interleave(columns),
        "expanded_local_pos": steps.repeat(batch),
        "temperature": torch.full((batch,), TEMPERATURE, device=device),
        "seed": index.long() + SEED,
        "num_speculative_steps": case.depth,
    }

    def run() -> Emitted:
        tokens, num_sampled = check(**given)
        return tokens, num_sampled

    return run


def sglang(case: Case, judged: Round) -> Callable[[], Emitted]:
    """SGLang's chain by the standard rule; its buffers are filled once, before the first round."""
    from pp3.harness.samplers import sglang_file
    from pp3.harness.samplers.sglang_chain import EMPTY

    launch = sglang_file.load().module.chain_speculative_sampling_triton
    batch, slots, device = case.batch, case.depth + 1, judged.target_probs.device
    place: dict[str, Any] = {"device": device, "dtype": torch.int32}
    draw = torch.Generator(device).manual_seed(COINS_SEED)
    predicts = torch.full((batch * slots,), EMPTY, **place)
    index, accepted = torch.full((batch, slots), EMPTY, **place), torch.empty(batch, **place)
    given: dict[str, Any] = {
        "candidates": torch.cat([torch.zeros(batch, 1, **place), judged.drafts.token], dim=1),
        "retrive_index": torch.arange(batch * slots, **place).view(batch, slots),
        "retrive_next_token": None,
        "retrive_next_sibling": None,
        "uniform_samples": torch.rand(batch, slots, generator=draw, device=device),
        "uniform_samples_for_final_sampling": torch.rand(batch, generator=draw, device=device),
        "target_probs": judged.target_probs,
        "draft_probs": judged.draft_probs,
        "threshold_single": 1.0,
        "threshold_acc": 1.0,
        "deterministic": True,
    }

    def run() -> Emitted:
        launch(predicts=predicts, accept_index=index, accept_token_num=accepted, **given)
        return predicts.view(batch, slots), accepted + 1

    return run


def flashinfer(case: Case, judged: Round) -> Callable[[], Emitted]:
    """FlashInfer's chain."""
    try:
        sampling = importlib.import_module("flashinfer").sampling
    except ImportError as error:
        raise PP3Error(f"{error.name or 'flashinfer'} is not installed") from None

    def run() -> Emitted:
        tokens, *_ = sampling.chain_speculative_sampling(
            judged.draft_probs, judged.drafts.token, judged.target_probs, seed=SEED, offset=OFFSET
        )
        return tokens, None

    return run


OPEN: dict[str, Callable[[Case, Round], Callable[[], Emitted]]] = {
    "vllm-v2": vllm,
    "sglang-chain": sglang,
    "flashinfer-chain": flashinfer,
}
NAMES = [one.name for one in contenders(Part.VERIFIER) if one.name in OPEN]


def contestant(name: str, case: Case, judged: Round) -> Contestant:
    """A peer on a round. Raises whatever opening it raises."""
    run = OPEN[name](case, judged)
    kept: list[Emitted] = []

    def step(_set: int) -> None:
        kept[:] = [run()]

    def check(_rounds: int) -> str:
        strays = stray(*kept[0], case)
        return f"{strays:,} of its requests emit what no round can" if strays else ""

    return Contestant(name=name, step=step, check=check)


def stray(tokens: torch.Tensor, num_sampled: torch.Tensor | None, case: Case) -> int:
    """How many requests have a first token outside the vocabulary, or a length outside [1, depth + 1]."""
    wrong = (tokens[:, 0] < 0) | (tokens[:, 0] >= case.vocab)
    if num_sampled is not None:
        wrong |= (num_sampled < 1) | (num_sampled > case.depth + 1)
    return int(wrong.sum())
