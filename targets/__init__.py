"""Toy targets: laws in integers over 2^24, with the draft logits of the proposal beside them."""

from pp3.targets.target import PATTERNS, Target, drafts_of, invalidated
from pp3.targets.toy import NAMES, build

__all__ = ["NAMES", "PATTERNS", "Target", "build", "drafts_of", "invalidated"]
