"""The whole path as a sampler under test: drafts by tickets, dense q by state slot, then both overlays of an image.

A request all of whose drafts are void stands for one whose proposal was lost on the way: it lands as failed, the engine
keeps the tokens that it was once told, and the runner overlay must void them. Without a carrier (the point-mass path)
the unchanged image verifies the same drafts, each a point mass.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pp3.harness.image import interpreter
from pp3.harness.overlay.load import Opened
from pp3.harness.samplers.contract import (
    INVALIDATED,
    WANTED,
    Batch,
    Carrier,
    Description,
    Emission,
    Kind,
    Randomness,
    Void,
)
from pp3.harness.samplers.vllm_image import INTERPRETED_ROWS
from pp3.harness.samplers.vllm_v2 import Slots, open_verifier, verify
from pp3.harness.transport.buffers import Proposals, Sparse, q_of
from pp3.harness.transport.drafter import Requests, UnguardedDrafter
from pp3.harness.transport.ranks import Alone
from pp3.kernels.addressing import Purpose
from pp3.kernels.reference import FAILED, MAX_VOCAB, MIN_VOCAB, TAU

NAME = "vllm-overlay"
Path = Callable[[Sparse], Sparse]  # what a round goes through between its producer and the buffers


def straight(landed: Sparse) -> Sparse:
    """The shortest path: nothing between producer and buffers."""
    return landed


class Overlay:
    """Producer, path, buffers and the overlays of one image, on one device. Keeps proposals by slot between rounds."""

    def __init__(self, opened: Opened, device: str, path: Path = straight) -> None:
        self.device = device
        self._opened, self._path = opened, path
        self._point = open_verifier(opened.image)
        self._proposals: Proposals | None = None

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name=NAME,
            version=self._opened.version,
            kind=Kind.PIPELINE,
            files=tuple(sorted(self._opened.image.files.items())),
            target_carrier=Carrier.LOGITS,
            draft_carrier=Carrier.TICKETS,
            randomness=Randomness.KEYED,
            void=Void.FULL_TARGET,
            greedy=True,
            min_vocab=MIN_VOCAB,
            max_vocab=MAX_VOCAB,
            rows_per_launch=INTERPRETED_ROWS if interpreter.active() else 0,
        )

    def reset(self) -> None:
        """Forget every slot."""
        self._proposals = None

    def run(self, batch: Batch) -> Emission:
        """One round for every request, `rows_per_launch` at a time."""
        batch = batch if batch.device == self.device else replace(batch, device=self.device)
        step = batch.rows_per_launch or len(batch)
        if len(batch) <= step:
            return self._launch(batch)
        rows = [np.arange(first, min(first + step, len(batch))) for first in range(0, len(batch), step)]
        parts = [self._launch(batch.take(some, step)) for some in rows]
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in FIELDS}
        return Emission(**joined)

    def propose(self, batch: Batch) -> Any:
        """Drafts of every position, as pp3.kernels.proposal.Drafts."""
        with np.errstate(all="ignore"):  # in the interpreter masked lanes are NumPy's
            return UnguardedDrafter(Alone()).draw(_Rows(batch), _requests(batch), TAU)

    def verify(self, batch: Batch, landed: Sparse, told: torch.Tensor) -> Emission:
        """Let a round land in the batch's slots, and verify what the engine was told [n, depth] by the overlays.

        The drafts of a row that did not land well become -1, whatever the engine was told.
        """
        with np.errstate(all="ignore"):
            proposals = self._buffers(batch)
            if batch.round_number == 0:
                proposals.begin(batch.slots, batch.generation)
            proposals.store(landed)
            fresh = proposals.take(batch.slots, batch.generation)[:, :1] >= 0
            judged = torch.where(fresh, told, INVALIDATED)
            logits = batch.target_logits_after(judged)
            tokens, lengths = self._verify(batch, Slots.of(batch), logits, proposals.carrier, told)
        return Emission(tokens=tokens, num_sampled=lengths, drafts=judged)

    def _launch(self, batch: Batch) -> Emission:
        given, drafts = batch.tensors.given, self.propose(batch)
        if not batch.carrier:
            return replace(self.point_mass(batch, drafts.token), proposed=drafts.token)
        lost = (given == INVALIDATED).all(dim=1)
        landed = Sparse(
            slots=batch.slots,
            generation=batch.generation,
            status=torch.where(lost, FAILED, drafts.status),
            sampled=torch.tensor(batch.sampled, dtype=torch.int32, device=given.device),
            tokens=drafts.token,
            ids=drafts.ids,
            q=q_of(drafts.tickets),
        )
        told = torch.where((given == WANTED) | lost[:, None], drafts.token, given)
        return replace(self.verify(batch, self._path(landed), told), proposed=drafts.token)

    def point_mass(self, batch: Batch, proposed: torch.Tensor) -> Emission:
        """The unchanged image over the drafts given, or those proposed [n, depth] where none is, each a point mass."""
        given = batch.tensors.given
        drafts = torch.where(given == WANTED, proposed, given)
        with np.errstate(all="ignore"):
            logits = batch.target_logits_after(drafts)
            tokens, lengths = verify(self._point, batch, Slots.of(batch), logits, None, drafts)
        return Emission(tokens=tokens, num_sampled=lengths, drafts=drafts)

    def _buffers(self, batch: Batch) -> Proposals:
        """Those of this stream; others where the shape is another."""
        shape = (batch.num_slots, batch.depth, batch.vocab)
        if self._proposals is None or self._proposals.q.shape != shape:
            self._proposals = Proposals(*shape, batch.device)
        return self._proposals

    def _verify(
        self, batch: Batch, slots: Slots, logits: torch.Tensor, carrier: torch.Tensor, told: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The runner overlay's verification step: logits [n, depth + 1, V], what the engine was told [n, depth]."""
        n, depth = told.shape
        steps = torch.arange(depth + 1, device=told.device)
        ids = torch.cat([torch.zeros_like(told[:, :1]), told], dim=1).int().reshape(-1)
        expanded = slots.index[:, None].expand(n, depth + 1).reshape(-1)
        runner = self._opened.runner(_stand_in(slots), _standard(depth), told.device)
        given = {
            "logits": logits.reshape(n * (depth + 1), -1),
            "draft_logits": carrier,
            "draft_sampled": ids,
            "pos": (batch.pos[:, None] + steps).reshape(-1),
            "cu_num_logits": torch.arange(n + 1, dtype=torch.int32, device=told.device) * (depth + 1),
            "idx_mapping": slots.index,
            "idx_mapping_np": None,
            "expanded_idx_mapping": expanded,
            "expanded_local_pos": steps.int().expand(n, depth + 1).reshape(-1),
            "seq_lens_upper_bound_np": None,
            "verify_draft_sampled": ids,
        }
        known = inspect.signature(runner._verify).parameters
        _, tokens, lengths = runner._verify(**{name: value for name, value in given.items() if name in known})
        return tokens, lengths


FIELDS = ("tokens", "num_sampled", "drafts", "proposed")


class _Rows:
    """A batch's draft logits as a head of the whole vocabulary, in BF16 as a drafter has them."""

    first = 0

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.vocab = self.width = batch.vocab
        self.depth = batch.depth

    def logits(self, position: int, previous: torch.Tensor) -> torch.Tensor:
        """See Head."""
        found: torch.Tensor = self._batch.draft_logits_after(position, previous if position else None)
        return found.to(torch.bfloat16)


def _requests(batch: Batch) -> Requests:
    device = torch.device(batch.device)

    def words(values: Any) -> torch.Tensor:
        return torch.tensor(values.view(np.int64), device=device)

    return Requests(
        anchor=torch.zeros(len(batch), dtype=torch.int32, device=device),
        sampled=torch.tensor(batch.sampled, dtype=torch.int32, device=device),
        keys=words(batch.keys(Purpose.PROPOSAL)),
        rounds=words(batch.rounds),
        positions=words(batch.positions),
    )


def _stand_in(slots: Slots) -> Any:
    """What the runner asks of the engine's sampler: the target's rows come to it processed."""
    return SimpleNamespace(
        apply_sampling_params=lambda logits, *rest: logits,
        sampling_states=SimpleNamespace(
            temperature=SimpleNamespace(gpu=slots.temperature), seeds=SimpleNamespace(gpu=slots.seed)
        ),
        use_fp64_gumbel=False,
    )


def _standard(depth: int) -> Any:
    """The engine's speculative configuration: standard rejection at one depth."""
    return SimpleNamespace(
        num_speculative_tokens=depth,
        enable_adaptive_verification=False,
        rejection_sample_method="standard",
        fly_entropy_threshold=0.3,
        fly_entropy_top_k=3,
    )
