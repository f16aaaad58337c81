"""What the two overlays change in vLLM, function by function. Only names of vLLM are written here, and our own text.

Sampler overlay: `draft_logits` carries probabilities q, FP32, over the whole target vocabulary, and `draft_semantic`
must say so. A draft is kept iff log p - log q > log u; what replaces it is drawn from (p - q)+. q is not divided by the
temperature, not put through a softmax, not cut to a smaller vocabulary, not rounded.

Runner overlay: in model runner V2's verification step, every draft of a request that has no proposal becomes -1.
"""

from dataclasses import dataclass

from pp3.harness.overlay import edits
from pp3.harness.overlay.edits import Edit, Marker
from pp3.harness.overlay.pins import RUNNER, RUNNER_MARKER, SAMPLER, SAMPLER_MARKER, SEMANTIC, VOID

NOTICE = "Changed by PP3: an experimental overlay, not vLLM's release. attestation.json beside it names every edit."

PROBABILITY = """\
    # PP3: draft_logits carries probabilities. A draft that has none is never kept.
    draft_prob = tl.load(
        draft_logits_ptr
        + req_state_idx * draft_logits_stride_0
        + draft_step * draft_logits_stride_1
        + token,
        mask=mask,
        other=0.0,
    )
    draft_log_prob = tl.where(draft_prob > 0.0, tl.log(draft_prob), float("inf"))
    draft_lse = 0.0
"""
RESIDUAL = """\
    # PP3: draft_logits carries probabilities. (p - q)+ over the whole target vocabulary, as
    # log p + log(1 - q / p); where q covers p, exp(-64) of p, which moves the law by less
    # than that, and is p itself where rounding leaves nothing of (p - q)+.
    draft_prob = tl.load(
        draft_logits_ptr
        + req_state_idx * draft_logits_stride_0
        + resample_idx * draft_logits_stride_1
        + block,
        mask=mask,
        other=0.0,
    )
    target_lse = tl.load(target_rejected_logsumexp_ptr + req_idx)
    target_log_probs = target_logits - target_lse
    ratio = tl.exp(tl.log(draft_prob) - target_log_probs)
    residual_logits = tl.where(
        ratio < 1.0,
        target_log_probs + tldevice.log1p(-ratio),
        target_log_probs - 64.0,
    ).to(tl.float32)
"""
GUARD = """\
    # PP3: draft_logits carries probabilities: the caller must say so, and no other mode
    # than standard rejection knows them.
    if draft_semantic != {marker}:
        raise ValueError(
            f"draft_logits carries {{draft_semantic!r}}; this overlay takes "
            f"{{{marker}!r}}"
        )
    if draft_logits.dtype != torch.float32 or draft_logits.size(-1) != vocab_size:
        raise ValueError(
            f"probabilities are {{draft_logits.dtype}} over {{draft_logits.size(-1)}} tokens; "
            f"this overlay takes torch.float32 over the target's {{vocab_size}}"
        )
    if (
        {modes}
    ):
        raise ValueError("this overlay knows standard rejection only")
"""
VOIDED = """\
    draft_semantic = None
    if draft_logits is not None:
        # PP3: every draft of a request that has no proposal becomes -1, the others stay.
        draft_semantic = getattr(draft_logits, "pp3_semantic", None)
        if draft_semantic is None:
            raise ValueError("draft_logits has no pp3_semantic: it is no PP3 carrier")
        failed = draft_logits.pp3_failed[expanded_idx_mapping.long()] != 0
        {ids} = {ids}.masked_fill(
            failed & (expanded_local_pos > 0), -1
        )
"""
OTHER_MODES = (
    "use_block_verification",
    "synthetic_conditional_rates is not None",
    "contexts is not None",
)
FLY_MODE = "fly_window_size > 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one file."""

    edits: tuple[Edit, ...]
    marker: Marker


def _sampler(*modes: str) -> Change:
    guard = GUARD.format(marker=SAMPLER_MARKER, modes="\n        or ".join(modes))
    return Change(
        edits=(
            edits.without("no-softmax-of-drafts", "_compute_local_logits_stats_kernel", "HAS_DRAFT_LOGITS"),
            edits.body("acceptance", "_compute_global_logprobs_and_logsumexp", "HAS_DRAFT_LOGITS", PROBABILITY),
            edits.body("residual", "_resample_kernel", "HAS_DRAFT_LOGITS", RESIDUAL),
            edits.parameter("semantic", "rejection_sample", "draft_semantic: str | None = None"),
            edits.instead("guard", "rejection_sample", "vocab_size", "min", guard),
        ),
        marker=Marker(name=SAMPLER_MARKER, text=SEMANTIC, notice=NOTICE),
    )


def _runner(ids: str) -> Change:
    function = "RejectionSampler._verify"
    return Change(
        edits=(
            edits.before("void", function, "sampled, num_sampled", "rejection_sample", VOIDED.format(ids=ids)),
            edits.argument("semantic", function, "rejection_sample", "draft_semantic", "draft_semantic"),
        ),
        marker=Marker(name=RUNNER_MARKER, text=VOID, notice=NOTICE),
    )


CHANGES = {
    "0.30.0": {SAMPLER: _sampler(*OTHER_MODES), RUNNER: _runner("draft_sampled")},
    "0.33.0": {SAMPLER: _sampler(*OTHER_MODES, FLY_MODE), RUNNER: _runner("verify_draft_sampled")},
}
