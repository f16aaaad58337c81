"""What a whole engine is judged by: `pp3 qualify --engine`. Checks are named condition/look, as stream/rank."""

from typing import Any

from pp3.harness.explain.entry import Entry, Part

PAGE = "docs/engine.md"
SEES = "of each check in its receipt; the sentence of a PASS has that of ranks"
ONE = "one answer in all that were compared"


def _look(name: str, methods: tuple[str, ...] = ("g",), **said: Any) -> Entry:
    return Entry(name=f"engine:{name}", part=Part.ENGINE, page=PAGE, methods=methods, sees=SEES, **said)


def _answer(name: str, required: bool = True, **said: Any) -> Entry:
    return Entry(name=f"engine:{name}", part=Part.ANSWERS, page=PAGE, sees=ONE, required=required, **said)


ENTRIES = (
    _look(
        "token",
        tests="tokens, given the class of the one before",
        law="the row of the checkpoint's tensors, filtered as the request says",
        finds="requests that get each other's rows; any wrong law",
        causes=(4,),
        planted=("RowOrder",),
        required=True,
    ),
    _look(
        "rank",
        tests="F(before x) + v p(x) of each token, the likeliest tokens first",
        law="uniform on [0, 1) and independent of all before, whatever law it is at that place",
        finds="parameters of another request or path; drafts judged by old laws; penalties that miss tokens",
        causes=(4, 5),
        planted=("OnePath", "BonusOnly", "LastOnly", "FirstParameters", "StaleDraft"),
        required=True,
    ),
    _look(
        "tilt",
        tests="the same ranks, tokens first that the proposal favours most over the target",
        law="uniform on [0, 1)",
        finds="a wrong acceptance rule: what leans to the drafts adds up, and shows in 2,000 tokens",
        causes=(1,),
        planted=("RawDraft",),
        required=True,
    ),
    _look(
        "position",
        tests="ranks of the first eight tokens after a prompt, position by position",
        law="uniform on [0, 1)",
        finds="prefill and padding: a prompt that loses a token or gains one",
        causes=(4,),
        planted=("Padding",),
        required=True,
    ),
    _look(
        "place",
        tests="ranks of tokens by their place in a speculation step",
        law="uniform on [0, 1)",
        finds="a bonus from the row before its own; a place that is judged by another law",
        causes=(3,),
        planted=("EarlyBonus",),
    ),
    _look(
        "pair",
        tests="two successive tokens, given the class before both",
        law="the product of the two rows",
        finds="dependence between steps",
        required=True,
    ),
    _look(
        "neighbour",
        methods=("binomial",),
        tests="equal tokens of requests that arrive one after the other",
        law="the chance that two independent requests have equal tokens",
        finds="one seed or one noise for all rows of a batch",
        causes=(11, 12),
        planted=("FirstSeed", "SharedNoise"),
        required=True,
    ),
    _look(
        "slot",
        methods=("binomial",),
        tests="equal tokens of requests one batch apart, which had the same slot",
        law="the chance that two independent requests have equal tokens",
        finds="a captured graph that draws the same numbers in every batch",
        causes=(11,),
        planted=("FrozenGraph",),
    ),
    _answer(
        "length",
        tests="the length of each answer that nothing stops",
        law="the one that was asked for",
        finds="a step's tokens that are all kept",
        causes=(3,),
        planted=("Overshoot",),
    ),
    _answer(
        "after",
        tests="what follows the end of a sequence, or a stop token of the request",
        law="nothing",
        finds="ends that are looked for in a step's last token, or nowhere",
        causes=(3,),
        planted=("NoEnd", "LateEnd"),
    ),
    _answer(
        "finish",
        tests="the reason that each answer gives for its end",
        law="the reason that there was",
        finds="stops reported as lengths, and lengths as stops",
    ),
    _answer(
        "argmax",
        tests="tokens at temperature 0",
        law="the likeliest token; exact ties are counted (greedy/ties) and allowed",
        finds="greedy requests that sample",
        causes=(8,),
        aliases=("ties", "greedy/ties"),
    ),
    _answer(
        "paths",
        tests="answers at temperature 0 with and without speculation",
        law="equal, but for exact ties",
        finds="a verification that is not greedy where its request is",
        causes=(8,),
    ),
    _answer(
        "replay",
        tests="the same requests and seeds again: alone, in a batch, in another order, in another slot",
        law="equal tokens, where the engine claims them",
        finds="seeds looked up by slot",
        causes=(12,),
        planted=("SlotSeed",),
        required=False,
        aliases=("alone", "batch", "order", "replay/slot"),
    ),
    _answer(
        "tolerance",
        tests="the log-probabilities that are reported of emitted tokens",
        law="the known law, to the error of its arithmetic",
        finds="those of the token before, or of another law than is said",
        causes=(15,),
        planted=("ShiftedLogprobs",),
        required=False,
        aliases=("logprobs",),
    ),
    _answer(
        "breach",
        tests="whether each request is answered, once, with tokens that there are",
        law="the engine contract",
        finds="requests lost or answered twice, ids outside the vocabulary",
        fails="INVALID",
        aliases=("token-outside-vocabulary", "answer-not-asked-for", "request-not-answered"),
    ),
)
