"""The tensors of a batch, made when first asked for and remembered, so that a sampler that changes one is found out."""

from functools import cached_property
from typing import Any

import numpy as np
import torch

from pp3.harness.samplers.contract import ABSENT, INVALIDATED, WANTED, Batch
from pp3.harness.samplers.words import words
from pp3.harness.seeds import integers
from pp3.harness.tally import start_of

BASE_POS = 64  # room below for samplers that look back; far below 2^30, where some put a salt


class Tensors:
    """Everything that a batch (harness/samplers/contract.Batch) offers to a sampler, on its device."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._tables: dict[str, torch.Tensor] = {}
        self.device = torch.device(batch.device)
        self.vocab = len(batch.target.context_of)

    def given_out(self) -> dict[str, torch.Tensor]:
        """Every tensor that was asked for, by name."""
        made = {name: value for name, value in vars(self).items() if isinstance(value, torch.Tensor)}
        return {name: value for name, value in made.items() if not name.startswith("_")}

    @cached_property
    def temperature(self) -> torch.Tensor:
        """[n] fp32; 0 is greedy."""
        heats = np.asarray(self._batch.target.tables.temperature, np.float32)[self._starts]
        return self._put(np.where(self._batch.sampled, heats, np.float32(0)))

    @cached_property
    def seeds(self) -> torch.Tensor:
        """[n] int64: those of neighbouring identities are consecutive; some samplers tell only 32 bits apart."""
        return self._put(self._base("seeds", 31) + self._batch.held.identities)

    @cached_property
    def pos(self) -> torch.Tensor:
        """[n] int64: position of the first draft; a round takes depth + 1."""
        return self._put(np.full(len(self._batch), BASE_POS + self.round_number * (self._batch.depth + 1), np.int64))

    @property
    def round_number(self) -> int:
        """Rounds that the identities of this batch had before; at 0 they are new."""
        return self._batch.held.round_number

    @cached_property
    def identities(self) -> torch.Tensor:
        """[n] int64: which request of the stream each row is."""
        return self._put(self._batch.held.identities)

    @property
    def num_slots(self) -> int:
        """Slots of per-request state, the same for all batches of a problem: some are never used."""
        return self._batch.held.num_slots

    @cached_property
    def slots(self) -> torch.Tensor:
        """[n] int64: the slot of each row, all different, in no order."""
        return self._put(self._batch.held.slots)

    @cached_property
    def generation(self) -> torch.Tensor:
        """[n] int64: how many identities had the row's slot before."""
        return self._put(self._batch.held.generation)

    @cached_property
    def generator(self) -> torch.Generator:
        """A generator on the device, seeded by this batch."""
        return torch.Generator(device=self.device).manual_seed(self.number("generator"))

    @cached_property
    def given(self) -> torch.Tensor:
        """[n, depth] int32: -2 draft yourself, -1 invalidated, -3 absent, or the draft."""
        return self._put(self._batch.given)

    @cached_property
    def num_drafts(self) -> torch.Tensor:
        """[n] int32: how many drafts each request has, at most the depth; those after them are absent."""
        return self._put(self._batch.num_drafts)

    @cached_property
    def draft_ids(self) -> torch.Tensor:
        """[n, depth] int32: what is to be verified, -1 where void or absent. ValueError where the sampler drafts."""
        if (self._batch.given == WANTED).any():
            raise ValueError(
                "these drafts are the sampler's own: draft from draft_logits_after(j, previous), then ask for "
                "target_logits_after(drafts)"
            )
        return self._put(np.where(self._batch.given == ABSENT, np.int32(INVALIDATED), self._batch.given))

    @cached_property
    def coins(self) -> torch.Tensor:
        """[n, depth] fp32 in [0, 1), multiples of 2^-24."""
        return self._uniform("coins", self._batch.depth)

    @cached_property
    def final_coins(self) -> torch.Tensor:
        """[n] fp32 in [0, 1), multiples of 2^-24."""
        return self._uniform("final coins", 1)[:, 0]

    @cached_property
    def logits(self) -> torch.Tensor:
        """[n, vocab] fp32: rows of a plain sampler, before temperature."""
        return self._table("logits").index_select(0, self._put(self._starts))

    @cached_property
    def probs(self) -> torch.Tensor:
        """[n, vocab] fp32: the same rows as probabilities, after temperature, before filters."""
        return self._table("probs").index_select(0, self._put(self._starts))

    @cached_property
    def top_k(self) -> torch.Tensor | None:
        """[n] int32, or None where no row has one."""
        return self._setting("top_k", np.int32)

    @cached_property
    def top_p(self) -> torch.Tensor | None:
        """[n] fp32, or None where no row has one."""
        return self._setting("top_p", np.float32)

    @cached_property
    def min_p(self) -> torch.Tensor | None:
        """[n] fp32, or None where no row has one."""
        return self._setting("min_p", np.float32)

    @cached_property
    def draft_probs(self) -> torch.Tensor:
        """[n, depth, vocab] fp32, after temperature."""
        return self._chosen("draft_probs", self._given_rows[:, :-1])

    @cached_property
    def draft_logits(self) -> torch.Tensor:
        """[n, depth, vocab] fp32, before temperature."""
        return self._chosen("draft_logits", self._given_rows[:, :-1])

    @cached_property
    def scaled_draft_logits(self) -> torch.Tensor:
        """[n, depth, vocab] fp32, divided by the temperature."""
        return self._chosen("scaled_draft_logits", self._given_rows[:, :-1])

    @cached_property
    def target_probs(self) -> torch.Tensor:
        """[n, depth + 1, vocab] fp32, processed."""
        return self._chosen("target_probs", self._given_rows)

    @cached_property
    def target_logits(self) -> torch.Tensor:
        """[n, depth + 1, vocab] fp32, processed."""
        return self._chosen("target_logits", self._given_rows)

    def draft_logits_after(self, position: int, previous: torch.Tensor | None) -> torch.Tensor:
        """[n, vocab] fp32 before temperature, for the draft at `position` after the drafts [n] before it."""
        return self._row_after("draft_logits", position, previous)

    def draft_probs_after(self, position: int, previous: torch.Tensor | None) -> torch.Tensor:
        """[n, vocab] fp32 after temperature, for the draft at `position` after the drafts [n] before it."""
        return self._row_after("draft_probs", position, previous)

    def target_logits_after(self, drafts: torch.Tensor) -> torch.Tensor:
        """[n, depth + 1, vocab] fp32, processed, for drafts [n, depth]."""
        return self._chosen("target_logits", self._rows_after(drafts))

    def target_probs_after(self, drafts: torch.Tensor) -> torch.Tensor:
        """[n, depth + 1, vocab] fp32, processed, for drafts [n, depth]."""
        return self._chosen("target_probs", self._rows_after(drafts))

    def number(self, label: str) -> int:
        """62 bits of this batch's own."""
        return self._base(f"{label}/{self._batch.target.name}/{self._batch.requests[:1].tolist()}", 62)

    @cached_property
    def _starts(self) -> np.ndarray[Any, Any]:
        """Context in which each request starts; of a plain one its row."""
        return start_of(self._batch.target, self._batch.requests)

    @cached_property
    def _given_rows(self) -> torch.Tensor:
        return self._rows_after(self.draft_ids)

    def _rows_after(self, drafts: torch.Tensor) -> torch.Tensor:
        """[n, depth + 1] the row at each position after the drafts [n, depth] before it."""
        context = self._contexts(drafts)
        context = torch.cat([self._put(self._starts)[:, None], context], dim=1)
        return self._row_of[torch.arange(context.shape[1], device=self.device), context]

    def _row_after(self, table: str, position: int, previous: torch.Tensor | None) -> torch.Tensor:
        if position and previous is None:
            raise ValueError(f"position {position} needs the drafts before it")
        context = self._put(self._starts) if previous is None or not position else self._contexts(previous)
        return self._table(table).index_select(0, self._row_of[position, context])

    def _contexts(self, tokens: torch.Tensor) -> torch.Tensor:
        """Contexts that tokens lead to; a token that is none leads where the nearest does."""
        return self._context_of[tokens.clamp(0, self.vocab - 1).long()]

    def _chosen(self, table: str, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, columns] of a table, [n, columns, vocab]."""
        return self._table(table).index_select(0, rows.reshape(-1)).view(*rows.shape, self.vocab)

    @cached_property
    def _row_of(self) -> torch.Tensor:
        return self._put(self._batch.target.row_of)

    @cached_property
    def _context_of(self) -> torch.Tensor:
        return self._put(self._batch.target.context_of)

    def _table(self, name: str) -> torch.Tensor:
        if name not in self._tables:
            carriers = self._batch.target.tables
            if not hasattr(carriers, name):
                raise ValueError(f"this batch has no {name}; it is one of depth {self._batch.depth}")
            self._tables[name] = self._put(getattr(carriers, name))
        return self._tables[name]

    def _setting(self, name: str, dtype: Any) -> torch.Tensor | None:
        values = getattr(self._batch.target.tables, name, None)
        return None if values is None else self._put(values[self._starts].astype(dtype))

    def _uniform(self, label: str, count: int) -> torch.Tensor:
        """[n, count] coins from the harness's own words, exact multiples of 2^-24."""
        drawn = words(self._batch.seed, f"{label}/{self._batch.target.name}", self._batch.requests, count)
        return self._put(((drawn >> np.uint64(40)) / 2.0**24).astype(np.float32))

    def _base(self, label: str, bits: int) -> int:
        return int(integers(self._batch.seed, f"tensors/{label}", 1)[0] >> np.uint64(64 - bits))

    def _put(self, values: Any) -> torch.Tensor:
        """A copy on the device: what is done to it leaves the harness's own numbers alone."""
        return torch.tensor(values, device=self.device)
