"""What may be asked of an engine, and when an answer of it is entire."""

from pp3.harness.engine.contract import Answer, Ask, Facts, Finish
from pp3.harness.engine.dialect import Part
from pp3.harness.engine.transport import AttemptError
from pp3.harness.errors import CampaignError

OTHER = "another tokenizer than the checkpoint's, or one that adds tokens"


def check(ask: Ask, facts: Facts) -> None:
    """Raises CampaignError for a parameter that the engine would not obey."""
    wanted = {
        "seed": ask.seed is not None,
        "top_k": ask.top_k is not None,
        "top_p": ask.top_p is not None,
        "min_p": ask.min_p is not None,
        "logit_bias": bool(ask.logit_bias),
        "repetition_penalty": ask.repetition_penalty is not None,
        "logprobs": ask.logprobs is not None,
        "stop": bool(ask.stop),
        "abort_after": ask.abort_after is not None,
        "speculate": not ask.speculate and facts.speculative,
    }
    lacking = sorted(name for name, is_wanted in wanted.items() if is_wanted and name not in facts.supports)
    if lacking:
        raise CampaignError(
            f"ask {ask.number} wants {', '.join(lacking)}, which {facts.name} does not take; "
            "leave it out, or plan by what the engine's facts say that it supports"
        )
    outside = [token for token in (*ask.prompt, *ask.stop, *ask.logit_bias) if not 0 <= token < facts.vocab]
    if outside or not ask.prompt or ask.length < 1:
        raise CampaignError(
            f"ask {ask.number}: tokens {outside[:3]} outside 0 to {facts.vocab - 1}, "
            f"a prompt of {len(ask.prompt)} or a length of {ask.length}; give 1 or more of each"
        )


def whole(ask: Ask, part: Part, facts: Facts) -> Answer:
    """The answer, if the engine says that it is complete and its parts agree. Raises AttemptError."""
    if part.finish is None:
        raise AttemptError("the answer does not say why it ended", again=True)
    if part.counted is not None and part.counted != len(part.tokens):
        raise AttemptError(f"the engine counts {part.counted} tokens and tells {len(part.tokens)} ids", again=False)
    if not part.tokens and part.finish is Finish.LENGTH:
        raise AttemptError("the answer has no token ids; choose the engine's dialect", again=False)
    outside = [token for token in part.tokens if not 0 <= token < facts.vocab]
    if outside:
        raise AttemptError(
            f"token {outside[0]} is outside 0 to {facts.vocab - 1}: the engine serves another checkpoint or "
            "pads its vocabulary",
            again=False,
        )
    if part.read is not None and part.read != ask.prompt:
        raise AttemptError(f"a prompt of {len(ask.prompt)} tokens is read as other tokens: {OTHER}", again=False)
    if part.read_count is not None and part.read_count != len(ask.prompt):
        raise AttemptError(f"a prompt of {len(ask.prompt)} tokens is read as {part.read_count}: {OTHER}", again=False)
    if ask.logprobs is not None and (part.logprobs is None or len(part.logprobs) != len(part.tokens)):
        raise AttemptError(f"{len(part.logprobs or ())} log-probabilities of {len(part.tokens)} tokens", again=False)
    return Answer(
        number=ask.number,
        tokens=part.tokens,
        finish=part.finish,
        logprobs=None if ask.logprobs is None else part.logprobs,
        steps=part.steps if ask.speculate and facts.speculative else None,
    )
