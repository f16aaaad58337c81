"""What stands behind every leaf of a receipt: the tables of docs/reference/receipt.md (harness/reference). One table of
every kind of receipt, and so longer than a module should be.

derived: `pp3 verify` works it out from other leaves, or it is fixed, and any other value is refused.
bound: a digest holds it, in the receipt or of a file; who changes it must change the digest, or the file.
attested: whoever wrote the receipt says so; verify holds it to its range and its sums, and judges what follows.

A rule is a path and covers whatever lies below it; the longest that fits a leaf decides. `[]` stands for each item of a
list.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Held(StrEnum):
    """What stands behind a leaf."""

    DERIVED = "derived"
    BOUND = "bound"
    ATTESTED = "attested"


@dataclass(frozen=True, slots=True)
class Rule:
    """A path, what stands behind it, and what that is."""

    path: str
    held: Held
    by: str


D, B, A = Held.DERIVED, Held.BOUND, Held.ATTESTED
EVERY = (
    Rule("_type", D, "fixed"),
    Rule("predicateType", D, "fixed; a newer major is refused before anything else of it is read"),
    Rule("predicate.kind", D, "chooses the shape, which must fit"),
    Rule("predicate.assurance", D, "fixed"),
    Rule("predicate.nonClaims", D, "fixed, word for word"),
    Rule("predicate.run.startedUtc", B, "the file's name begins with it; the clock is believed"),
    Rule("predicate.run.finishedUtc", A, "a clock"),
    Rule("predicate.tool", A, "what wrote the receipt"),
    Rule("predicate.environment", A, "versions and variables of the run"),
    Rule("predicate.verdict", D, "follows from the integers"),
    Rule("predicate.reasons", D, "follow from the integers"),
    Rule("predicate.sentence", D, "follows from the integers, and names the sampler"),
)
SOURCES = (
    Rule("subject[].name", B, "a source file, with its digest: --source and --expect-source compare it"),
    Rule("subject[].digest.sha256", B, "likewise"),
)
PLANNED = (
    Rule("predicate.plan", B, "planSha256, and through it the seed and so every draw"),
    Rule("predicate.plan.targets[].lawSha256", D, "the law is built again from the target's name and definition"),
    Rule("predicate.planSha256", D, "of the plan's canonical bytes"),
    Rule("predicate.seed.rule", D, "fixed"),
    Rule("predicate.seed.sha256", D, "of planSha256 and the counter"),
    Rule("predicate.seed.counter", B, "the seed"),
    Rule("predicate.seed.chosen", A, "whether the next counter was taken or one was given"),
    Rule("predicate.cells[].id", D, "each cell of the plan once"),
    Rule("predicate.cells[].counts", A, "a replay gives them again; they add up to the requests"),
    Rule("predicate.cells[].first", A, "likewise, of the first half of the requests; no more than the counts"),
    Rule("predicate.strays", A, "names every forbidden outcome that is counted"),
    Rule("predicate.breaches", A, "counts; any makes the verdict INVALID or FAIL"),
    Rule("predicate.tests", D, "every statistic, level and outcome, from plan and counts"),
    Rule("predicate.deviations", D, "the bounds of each deviation, from plan and counts"),
    Rule("predicate.execution.pieces", D, "those that the plan is cut into"),
    Rule("predicate.execution.attempts", A, "how often it was started"),
    Rule("predicate.execution.devices", A, "how many pieces each device ran; they add up to all"),
    Rule("predicate.execution.repeated", A, "pieces that came twice, with equal results"),
    Rule("predicate.execution.unequal", A, "pieces of the plan; any makes the verdict INVALID"),
)
OF_ENGINE = ("predicate.plan", "predicate.seed", "predicate.tests", "predicate.cells")
OF_CALIBRATION = ("predicate.plan", "predicate.seed")
OF_CAMPAIGN = ("predicate.plan.targets[].lawSha256", "predicate.cells[].first")
DEVICE = Rule("predicate.kernels.identity", A, "the device and what was compiled for it")
SAMPLER = Rule("predicate.sampler", A, "who says to have run; the reviewer compares it with --expect-sampler")
ANSWERS = (
    Rule("predicate.kernels.conform[].file", D, "the files of known answers, in order"),
    Rule("predicate.kernels.conform[].sha256", B, "the file installed here"),
    Rule("predicate.kernels.conform[].total", D, "cases of that file"),
    Rule("predicate.kernels.conform[].passed", A, "one less than all makes the verdict FAIL"),
)


def way(at: str) -> tuple[Rule, ...]:
    """Rules of what a path did to the proposals."""
    return (
        Rule(f"{at}.frames", D, "those into which plan and seed deal the requests"),
        Rule(f"{at}.rows", D, "likewise"),
        Rule(f"{at}.sampled", D, "likewise"),
        Rule(f"{at}.injected", D, "the requests that plan and seed choose to lose"),
        Rule(f"{at}.counted", A, "what the engine lost; other numbers than were injected make the verdict FAIL"),
        Rule(f"{at}.altered", A, "one makes the verdict FAIL"),
        Rule(f"{at}.proxies", A, "how many were begun; nothing follows from it"),
    )


RULES: dict[str, tuple[Rule, ...]] = {
    "qualify": (
        *EVERY,
        *SOURCES,
        *PLANNED,
        *ANSWERS,
        DEVICE,
        SAMPLER,
        Rule("predicate.profile", A, "the kind that the sampler says to be"),
        Rule("predicate.cells[].batch", D, "each batch size of the plan once"),
        Rule("predicate.kernels.missing", A, "why nothing was shown of the kernels"),
        Rule("predicate.kernels.bits[].id", D, "the groups that the plan implies"),
        Rule("predicate.kernels.bits[].rows", D, "likewise"),
        Rule("predicate.kernels.bits[].failedRows", A, "rows refused by both, as they should be"),
        Rule("predicate.kernels.bits[].mismatches", A, "one makes the verdict FAIL"),
        Rule("predicate.kernels.bits[].first", A, "the first row that differs"),
        Rule("predicate.paired[].target", D, "the shards that tile the pairs of the plan"),
        Rule("predicate.paired[].depth", D, "likewise"),
        Rule("predicate.paired[].pairs", D, "likewise"),
        Rule("predicate.paired[].mismatches", A, "one makes the verdict FAIL"),
        Rule("predicate.paired[].first", A, "the first pair that differs"),
        Rule("predicate.seedFamily", D, "from the counts"),
        Rule("predicate.sees", D, "from plan and counts"),
        Rule("predicate.timings", A, "clocks: what was timed, and how long it took; nothing follows from them"),
        Rule("predicate.timings[].unit", D, "fixed"),
    ),
    "wire": (),
    "trial": (
        *EVERY,
        *SOURCES,
        *PLANNED,
        SAMPLER,
        Rule("predicate.profile", D, "the kind that the plan declares"),
        Rule("predicate.broken", A, "what each target broke off with; any makes the verdict INVALID"),
        Rule("predicate.effects", D, "from plan and counts"),
        Rule("predicate.resolution", D, "from plan and counts"),
        Rule("predicate.sampler.name", D, "the name that the plan declares"),
        Rule("predicate.sampler.version", D, "the version that the plan declares"),
        Rule("predicate.sampler.files", B, "the digest of each file: --expect-source compares it"),
        Rule("predicate.sampler.image.version", D, "the sampler's"),
        Rule("predicate.sampler.image.files", B, "the pin of its version, and the sampler's files"),
        Rule("predicate.overlay.attestation", B, "what pp3 prepare wrote; the digests of both files are pinned"),
        Rule("predicate.overlay.path", A, "what a proposal went through between its producer and the verifier"),
        *way("predicate.overlay.journey"),
        Rule("predicate.overlay.paired[].target", D, "the targets of the plan, which tile the pairs"),
        Rule("predicate.overlay.paired[].depth", D, "the plan's"),
        Rule("predicate.overlay.paired[].pairs", A, "equal shares of their sum"),
        Rule("predicate.overlay.paired[].mismatches", A, "one makes the verdict FAIL"),
        Rule("predicate.overlay.paired[].first", A, "the first pair that differs"),
    ),
    "engine": (
        *EVERY,
        *SOURCES,
        *(rule for rule in PLANNED if rule.path.startswith(OF_ENGINE) and rule.path not in OF_CAMPAIGN),
        Rule("predicate.plan.lawSha256", D, "the chain is built again from its name"),
        Rule("predicate.plan.checkpoints", D, "every file is made again from the chain's name"),
        Rule("predicate.plan.conditions", D, "follow from the target, the tokens and what the engine declares"),
        Rule("predicate.plan.lawError", D, "from the law"),
        Rule("predicate.plan.notApplicable", D, "as the conditions"),
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.sampler", D, "the name, the version and the settings that the plan declares"),
        Rule("predicate.attempts", A, "how often it was started"),
        Rule("predicate.tokens", A, "a sum over all answers; nothing follows from it"),
        Rule("predicate.replaced", A, "attempts asked for again; more lost than the resolution is INCONCLUSIVE"),
        Rule("predicate.breaches", A, "counts; any makes the verdict INVALID"),
        Rule("predicate.exact[].id", D, "the comparisons that the plan implies, in order"),
        Rule("predicate.exact[].compared", A, "none makes the verdict INCONCLUSIVE"),
        Rule("predicate.exact[].wrong", A, "one makes the verdict FAIL"),
        Rule("predicate.resolution", D, "from the plan"),
    ),
    "exhaustive": (
        *EVERY,
        *SOURCES,
        *ANSWERS,
        DEVICE,
        SAMPLER,
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.tool.name", D, "fixed"),
        Rule("predicate.kernels.bits", D, "none"),
        Rule("predicate.kernels.missing", D, "nothing is"),
        Rule("predicate.enumerations[].id", D, "the enumerations of the device, in order"),
        Rule("predicate.enumerations[].claim", D, "fixed"),
        Rule("predicate.enumerations[].compared", A, "how many comparisons were made; right or the verdict is FAIL"),
        Rule("predicate.enumerations[].values", A, "integers; each is right or the verdict is FAIL"),
    ),
    "oracle": (
        *EVERY,
        *SOURCES,
        *ANSWERS,
        DEVICE,
        SAMPLER,
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.tool.name", D, "fixed"),
        Rule("predicate.kernels.bits", D, "none"),
        Rule("predicate.kernels.missing", D, "nothing is"),
        Rule("predicate.policies[].distances", D, "from the tickets"),
        Rule("predicate.policies[].survey", D, "carried from the tickets to the rational law, again"),
        Rule("predicate.policies[].survey.ids", A, "the tokens of each support, as the device emitted them"),
        Rule("predicate.policies[].survey.tickets", A, "the tickets of each token, as the device emitted them"),
        Rule("predicate.policies[].survey.drawn", A, "how often each was drawn"),
    ),
    "probe": (
        *EVERY,
        *SOURCES,
        DEVICE,
        SAMPLER,
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.plan", D, "the cases and sizes of the mode"),
        Rule("predicate.exclusions", D, "fixed, word for word"),
        Rule("predicate.absent", A, "why each that is not timed in a case is not; none is left out in silence"),
        Rule("predicate.peers", A, "the versions of those that ran"),
        Rule("predicate.bandwidth.how", D, "fixed"),
        Rule("predicate.bandwidth.bytes", A, "bytes that were copied"),
        Rule("predicate.bandwidth.samples", A, "clocks"),
        Rule("predicate.cases[].id", D, "the cases of the plan, in order"),
        Rule("predicate.cases[].timings[].id", D, "the contestants of the case, in order, but those absent"),
        Rule("predicate.cases[].timings[].method", A, "whether a graph was replayed"),
        Rule("predicate.cases[].timings[].launches", A, "nodes of a round's graph; the floor has as many as ours"),
        Rule("predicate.cases[].timings[].rounds", A, "rounds of a sample: those of the case, or fewer of a slow peer"),
        Rule("predicate.cases[].timings[].samples", A, "clocks, as many as planned"),
        Rule("predicate.figures", D, "every quantile and ratio, from the samples"),
        Rule("predicate.kernels.conform", D, "none"),
        Rule("predicate.kernels.missing", D, "nothing is"),
        Rule("predicate.kernels.bits[].id", D, "each case before and after"),
        Rule("predicate.kernels.bits[].rows", D, "likewise"),
        Rule("predicate.kernels.bits[].failedRows", A, "rows that the reference refuses"),
        Rule("predicate.kernels.bits[].mismatches", A, "one makes the verdict FAIL, and leaves no time"),
        Rule("predicate.kernels.bits[].first", A, "the first row that differs"),
    ),
    "calibration": (
        *EVERY,
        *SOURCES,
        *(rule for rule in PLANNED if rule.path.startswith(OF_CALIBRATION) and rule.path not in OF_CAMPAIGN),
        DEVICE,
        Rule("predicate.sampler", D, "the battery, and the vocabularies that the reference declares"),
        Rule("predicate.sampler.version", A, "the battery's"),
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.kernels.bits", D, "none"),
        Rule("predicate.kernels.conform", D, "none"),
        Rule("predicate.kernels.missing", D, "nothing is"),
        Rule("predicate.levels[].level", D, "both, in order"),
        Rule("predicate.levels[].campaigns", D, "the plan's"),
        Rule("predicate.levels[].distinct", A, "campaigns whose counts differ; one fewer than all makes a FAIL"),
        Rule("predicate.levels[].family", A, "bins, which add up to the campaigns"),
        Rule("predicate.levels[].rejected", D, "from the bins of the family"),
        Rule("predicate.levels[].kinds[].id", D, "the kinds of checks that the plan's battery has, in order"),
        Rule("predicate.levels[].kinds[].tried", D, "campaigns times the checks of the kind"),
        Rule("predicate.levels[].kinds[].below", A, "how many p-values are at most so small"),
        Rule("predicate.levels[].kinds[].pit", A, "bins, which add up to the campaigns"),
        Rule("predicate.tails[].id", D, "each check that decides, in order"),
        Rule("predicate.tails[].level", D, "likewise"),
        Rule("predicate.tails[].alpha", D, "the level of the check, from the plan"),
        Rule("predicate.tails[].how", D, "by the check's method"),
        Rule("predicate.tails[].chance", A, "of G and the fit an estimate from draws; of any other worked out again"),
        Rule("predicate.tails[].error", A, "the estimate's standard error"),
        Rule("predicate.tails[].exact", A, "of a small law by dynamic programming"),
        Rule("predicate.figures", D, "rates, bands, tests of uniformity and sums, from the integers and the tails"),
    ),
    "survey": (
        *EVERY,
        Rule("subject[].name", D, "the receipts of its rows, in order"),
        Rule("subject[].digest.sha256", B, "the receipt of that name, beside this one"),
        Rule("predicate.profile", D, "fixed"),
        Rule("predicate.samplers", B, "the trial's receipt, which lies beside this one and says the same"),
        Rule("predicate.samplers[].about", A, "a description"),
        Rule("predicate.samplers[].name", A, "the name it was chosen by"),
        Rule("predicate.notRun", A, "why each of the rest was not run"),
    ),
}
RULES["wire"] = (
    *RULES["qualify"],
    *way("predicate.path"),
)
HEAD = "| leaf | held | by |\n|---|---|---|"


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Each leaf of a statement: its path as rules are written, and the keys that lead to it. Empty ones are leaves."""
    yield from _leaves(value, path, ())


def _leaves(value: Any, path: str, keys: tuple[str | int, ...]) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else key, (*keys, key))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[]", (*keys, number))
    else:
        yield path, keys


def rule_of(kind: str, path: str) -> Rule:
    """The longest rule that covers a leaf; of an empty list or map, the strictest of its members. KeyError if none."""
    found = [rule for rule in RULES[kind] if covers(rule.path, path)]
    if found:
        return max(found, key=lambda rule: len(rule.path))
    members = [rule for rule in RULES[kind] if covers(path, rule.path)]
    if not members:
        raise KeyError(f"{kind}: {path}")
    return min(members, key=_place)


def covers(rule: str, path: str) -> bool:
    """Whether a path is that of a rule, or lies below it."""
    return path == rule or (path.startswith(rule) and path[len(rule)] in ".[")


def render() -> str:
    """The table of each kind, in Markdown."""
    parts = []
    for kind, rules in RULES.items():
        rows = "\n".join(f"| `{rule.path}` | {rule.held} | {rule.by} |" for rule in sorted(rules, key=_place))
        parts.append(f"### {kind}\n\n{HEAD}\n{rows}\n")
    return "\n".join(parts)


def _place(rule: Rule) -> tuple[int, str]:
    return list(Held).index(rule.held), rule.path
