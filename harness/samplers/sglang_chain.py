"""SGLang's verification of a chain of drafts, by the standard rule or by blocks, with the harness's coins.

Every random number is handed in, so that a draw can be chosen. Without a GPU it runs in Triton's interpreter.
"""

from collections.abc import Callable
from typing import Any

import torch

from pp3.harness.image import interpreter
from pp3.harness.samplers import sglang_file
from pp3.harness.samplers.contract import Batch, Carrier, Description, Emission, Kind, Randomness, Rule, Void

EMPTY = -1  # what SGLang fills accept_index with


class Chain:
    """`chain_speculative_sampling_triton` by one rule; `launch` takes its place in tests."""

    def __init__(self, rule: Rule = Rule.STANDARD, launch: Callable[..., None] | None = None) -> None:
        self.rule = rule
        self.version = "unknown"
        self.files: tuple[tuple[str, str], ...] = ()
        if launch is None:
            loaded = sglang_file.load()
            launch = loaded.module.chain_speculative_sampling_triton
            self.version = loaded.version
            self.files = ((sglang_file.NAME, loaded.sha256),)
        self.launch = launch

    def describe(self) -> Description:
        """See the contract."""
        return Description(
            name="sglang-chain" if self.rule is Rule.STANDARD else f"sglang-chain-{self.rule}",
            kind=Kind.VERIFIER,
            version=self.version,
            backend="interpreter" if self.files and interpreter.active() else "",
            files=self.files,
            target_carrier=Carrier.PROBS,
            draft_carrier=Carrier.PROBS,
            randomness=Randomness.INJECTED,
            rule=self.rule,
            void=Void.UNSUPPORTED,
            greedy=True,  # a greedy row's target is one-hot: top-k 1, renormalised
        )

    def run(self, batch: Batch) -> Emission:
        """One round for every request."""
        return self.verify(batch.draft_ids, batch.target_probs, batch.draft_probs, batch.coins, batch.final_coins)

    def verify(
        self,
        drafts: torch.Tensor,
        target_probs: torch.Tensor,
        draft_probs: torch.Tensor,
        coins: torch.Tensor,
        final_coins: torch.Tensor,
    ) -> Emission:
        """Drafts [n, K], fp32 laws [n, K + 1, V] and [n, K, V], coins [n, K] and [n], to one round each."""
        n, slots = len(drafts), drafts.shape[1] + 1
        place: dict[str, Any] = {"device": drafts.device, "dtype": torch.int32}
        # A flat place for every node of the chain: its root, which no draft is at, then the drafts.
        nodes = torch.arange(n * slots, **place).view(n, slots)
        candidates = torch.cat([torch.zeros_like(drafts[:, :1]), drafts], dim=1)
        predicts = torch.full((n * slots,), EMPTY, **place)
        accept_index = torch.full((n, slots), EMPTY, **place)
        accepted = torch.empty(n, **place)
        self.launch(
            predicts=predicts,
            accept_index=accept_index,
            accept_token_num=accepted,
            candidates=candidates,
            retrive_index=nodes,
            retrive_next_token=None,
            retrive_next_sibling=None,
            uniform_samples=coins,
            uniform_samples_for_final_sampling=final_coins,
            target_probs=target_probs,
            draft_probs=draft_probs,
            threshold_single=1.0,
            threshold_acc=1.0,
            deterministic=True,
            block_verification=self.rule is Rule.BLOCK,
        )
        emitted = predicts[accept_index.clamp(min=0).long()].where(accept_index >= 0, EMPTY)
        return Emission(tokens=emitted, num_sampled=accepted + 1)


def block() -> Chain:
    """The same by blocks."""
    return Chain(Rule.BLOCK)
