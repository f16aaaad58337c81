"""docs/reference/targets.md: the targets that come with pp3, with what each is for and the digest of its law."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from pp3 import targets
from pp3.harness.reference.tables import code, table
from pp3.targets import chains, filtered, pairs, policies
from pp3.targets.filtered import Case
from pp3.targets.target import ONE

HEAD = """\
# Targets

The laws that samplers are tried on. All are integers over 2^24, so every probability is exact in FP32; each is built
from a hash of its own name, so that no library can change it. A receipt names the target and holds its digest, and
`pp3 verify` builds the law again from the name. The digests of this page are those of the target and its proposal as
`targets/` builds them. A trial's receipt holds another digest (`lawSha256`): that of the law as the carriers that the
sampler declares bring it, as FP32 probabilities or logits.

V is the vocabulary. *Kept* is the chance that a first look at a position keeps its draft, the sum of min(P, Q) over
the tokens, of the row where it is smallest and of the row where it is largest. A target of your own:
[campaign.md](campaign.md#target).

"""
OWN = """\
## Of our own sampler's campaign

Six positions: five drafts and the bonus. The proposal's law are the tickets of [semantics](../semantics.md) section
2.

"""
TRIED = """
## Of other samplers: verifiers, proposals, pipelines

*Depth* is the number of drafts. `pp3 qualify --sampler S --target NAME` runs one alone.

"""
BRIDGED = """
## Of the bridge

What `pp3 oracle` carries to an exact law.

"""
SERVED = """
## Of whole engines

Chains that `pp3 checkpoint NAME` writes as a model; the law of a token depends on the class of the token before
([engine.md](../engine.md#the-model)).

"""
PLAIN = """
## Of plain samplers

Cases of one vocabulary share a batch, under the name that `--target` takes. *Hit*: a sum or a ratio equals its
threshold exactly. Shares are in proportion, by falling weight; the ids are dealt to them in another order.

"""


def page() -> str:
    """The page."""
    own = [targets.build(name) for name in targets.NAMES]
    bridged = [policies.build_policy(name) for name in policies.POLICIES]
    return "".join(
        (
            *(HEAD, OWN, _table(own, "contexts", lambda one: one.contexts)),
            *(TRIED, _table([pairs.build(name) for name in pairs.NAMES], "depth", lambda one: one.depth)),
            *(BRIDGED, _table(bridged, "contexts", lambda one: one.contexts)),
            *(SERVED, _table([chains.build(name) for name in chains.NAMES], "classes", lambda one: one.classes)),
            *(PLAIN, _cases(), "\nThe rows:\n\n", _rows()),
        )
    )


def _table(found: Iterable[Any], size: str, of: Any) -> str:
    """One row a target; the digest whole, for it is what a receipt is compared with."""
    rows = [(code(one.name), f"{one.vocab:,}", str(of(one)), _kept(one), one.why, code(one.digest())) for one in found]
    return table(("target", "V", size, "kept", "what it is for", "SHA-256"), rows)


def _kept(one: Any) -> str:
    """Least and largest chance over the rows, to three decimals of an exact ratio."""
    draft = one.draft_weights if hasattr(one, "draft_weights") else one.proposal_weights()
    sums = np.minimum(one.weights, draft).sum(axis=1).tolist()
    low, high = (f"{round(1000 * value / ONE) / 1000:.3f}" for value in (min(sums), max(sums)))
    return low if low == high else f"{low} to {high}"


def _cases() -> str:
    by_name = {name: shares for name, shares, *_ in (*filtered.HITS, *filtered.MISSES)}
    rows = [
        (f"rows-of-{len(case.weights)}", code(case.name), by_name[case.name], _settings(case), case.why)
        for case in sorted(filtered.cases(), key=lambda case: len(case.weights))
    ]
    return table(("target", "case", "row", "settings", "what it is for"), rows)


def _settings(case: Case) -> str:
    """Those that are not neutral."""
    given, neutral = case.settings, filtered.Settings()
    said = [
        f"{name} {getattr(given, name):.9g}"
        for name in ("temperature", "top_k", "top_p", "min_p")
        if getattr(given, name) != getattr(neutral, name)
    ]
    return ", ".join(said + ["hit"] * case.exact_hit) or "none"


def _rows() -> str:
    rows = [(code(name), str(len(shares)), _shares(shares)) for name, shares in filtered.ROWS.items()]
    return table(("row", "V", "shares"), rows)


def _shares(shares: tuple[int, ...]) -> str:
    """In full, or the first of them."""
    return ", ".join(map(str, shares[:14])) + (f", ... ({len(shares)} in all)" if len(shares) > 14 else "")
