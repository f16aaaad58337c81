"""The figures of a probe as tables: on a terminal, and as docs/performance.md, from the receipt alone."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any

from pp3.harness.probe.figures import EXCLUSIONS, microseconds, quantile
from pp3.harness.probe.plan import (
    FLOOR,
    FLOOR_DEPENDENT,
    FLOORS,
    OURS,
    Cache,
    Case,
    Job,
    Kind,
    Mode,
    Part,
    cases,
    contenders,
)
from pp3.harness.terminal import Column, Fit, fold, table, width

Row = dict[str, Any]
NOTHING = "-"


class Times:
    """Medians of a receipt, by case and contestant."""

    def __init__(self, predicate: Row) -> None:
        self.by_id = {case.id: case for case in cases(Mode(predicate["plan"]["mode"]))}
        self.rounds = {
            (row["id"], timing["id"]): timing["rounds"] for row in predicate["cases"] for timing in row["timings"]
        }
        self.lines = {row["id"]: {line["id"]: line for line in row["lines"]} for row in predicate["figures"]}
        self.memory = {row["id"]: Fraction(row["memoryNs"]) for row in predicate["figures"]}

    def cases(self, part: Part) -> list[Case]:
        """Those that were timed, in order."""
        return [case for name, case in self.by_id.items() if case.part is part and name in self.lines]

    def nanoseconds(self, case: Case, name: str, key: str = "median") -> Fraction | None:
        """A quantile of a round; None of one that was absent."""
        line = self.lines[case.id].get(name)
        return Fraction(line[key], self.rounds[case.id, name]) if line else None

    def shown(self, case: Case, name: str, key: str = "median") -> str:
        """The same in microseconds."""
        value = self.nanoseconds(case, name, key)
        return NOTHING if value is None else microseconds(value)

    def floor(self, case: Case) -> Fraction:
        """The smaller floor, in nanoseconds."""
        return min(value for name in FLOORS if (value := self.nanoseconds(case, name)) is not None)

    def nearest(self, case: Case) -> tuple[str, Fraction] | None:
        """The fastest peer that does the same work, and its median over ours."""
        ours = self.nanoseconds(case, OURS)
        whole = [one.name for one in contenders(case.part) if one.job is Job.WHOLE]
        met = [(value / ours, name) for name in whole if ours and (value := self.nanoseconds(case, name)) is not None]
        return (min(met)[1], min(met)[0]) if met else None


def terminal_lines(predicate: Row) -> list[str]:
    """A line a case: ours, the floor, the nearest peer that does the same work, and the memory time."""
    times = Times(predicate)
    columns = [
        Column(head="case"),
        *(Column(head=head, right=True) for head in ("us", "floor", "x floor", "memory", "nearest")),
        Column(head="who", fit=Fit.FOLD),
    ]
    rows = []
    for case in (case for part in Part for case in times.cases(part)):
        found, ours, floor = times.nearest(case), times.nanoseconds(case, OURS), times.floor(case)
        rows.append(
            [
                _short(case),
                times.shown(case, OURS),
                microseconds(floor),
                f"{float(ours / floor):.2f}" if ours else NOTHING,
                microseconds(times.memory[case.id]),
                f"{float(found[1]):.2f}x" if found else NOTHING,
                found[0] if found else NOTHING,
            ]
        )
    said = [f"{name} is absent: {why}" for name, why in sorted(predicate["absent"].items())]
    absent = [line for one in said for line in fold(one, width())]
    return ["", *table(columns, rows), "", *absent, *([""] if absent else [])] if rows else ["", *absent]


def _short(case: Case) -> str:
    """V163840 d5 B4 cold sorted."""
    kind = "" if case.kind is Kind.RANDOM else f" {case.kind}"
    cache = "" if case.cache is Cache.HOT else f" {case.cache}"
    part = "verify " if case.part is Part.VERIFIER else ""
    return f"{part}V{case.vocab} d{case.depth} B{case.batch}{kind}{cache}"


def page(predicate: Row) -> str:
    """What docs/performance.md holds between its marks, of one receipt."""
    times = Times(predicate)
    chapters = [_head(predicate), _selector(times), _verifier(times), _left_out(predicate)]
    return "\n".join(chapter for chapter in chapters if chapter)


def _head(predicate: Row) -> str:
    identity, plan, peers = predicate["kernels"]["identity"], predicate["plan"], predicate["peers"]
    versions = [f"{name} {identity[name]}" for name in ("torch", "triton", "cuda") if name in identity]
    versions += [f"{name} {version}" for name, version in sorted(peers.items()) if name != "torch"]
    copied = predicate["bandwidth"]
    speed = copied["bytes"] / quantile(copied["samples"], 50)
    option, measured = " --quick" if plan["mode"] == Mode.QUICK else "", predicate["run"]["startedUtc"][:10]
    count, rounds, warm = plan["repetitions"], plan["rounds"], plan["warmups"]
    lines = [
        f"Measured by `pp3 probe{option}` on one {identity.get('gpu', 'GPU')}, {measured}, with",
        f"{', '.join(versions)}; written by `pp3 probe --markdown RECEIPT`.",
        "",
        f"> {predicate['sentence']}",
        "",
        f"Microseconds of a round: the median of {count} samples, each of up to {rounds} rounds that one CUDA graph",
        f"holds, between two events, after {warm} replays that do not count; the contestants take turns. The floor is",
        "as many empty launches as ours makes, in stream order, and by programmatic dependent launch. Memory is the",
        f"time that the fewest bytes of a round need at {speed:,.0f} GB/s ({copied['how']}).",
    ]
    return "\n".join(lines) + "\n"


def _selector(times: Times) -> str:
    found = times.cases(Part.SELECTOR)
    if not found:
        return ""
    parts = ["## Selector\n", _explained(Part.SELECTOR, times)]
    groups: list[tuple[str, Callable[[Case], bool]]] = [
        ("Random rows, hot in L2", lambda case: case.kind is Kind.RANDOM and case.cache is Cache.HOT),
        ("Random rows, cold", lambda case: case.kind is Kind.RANDOM and case.cache is Cache.COLD),
        ("Other rows, hot in L2", lambda case: case.kind is not Kind.RANDOM),
    ]
    for title, belongs in groups:
        some = [case for case in found if belongs(case)]
        if some:
            parts.append(f"### {title}\n\n{_table(times, some, Part.SELECTOR)}")
    return "\n".join(parts)


def _verifier(times: Times) -> str:
    found = times.cases(Part.VERIFIER)
    if not found:
        return ""
    return "\n".join(["## Verifier\n", _explained(Part.VERIFIER, times), _table(times, found, Part.VERIFIER)])


def _explained(part: Part, times: Times) -> str:
    """A line for each contestant that was timed."""
    timed = {name for case in times.cases(part) for name in times.lines[case.id]}
    jobs = {Job.PART: " (less than our work)", Job.WHOLE: " (the same work)"}
    lines = [f"- {one.name}: {one.about}{jobs.get(one.job, '')}" for one in contenders(part) if one.name in timed]
    return "\n".join(lines) + "\n"


def _table(times: Times, some: Sequence[Case], part: Part) -> str:
    """Medians by contestant; ours with its percentiles and ratios."""
    timed = {name for case in some for name in times.lines[case.id]}
    peers = [one.name for one in contenders(part) if one.name in timed and one.job in (Job.PART, Job.WHOLE)]
    head = ["vocabulary", "depth", "batch", "rows", FLOOR, FLOOR_DEPENDENT, "ours", "p05 to p95", "x floor", "memory"]
    rows = [[*head, *peers]]
    for case in some:
        ours, floor = times.nanoseconds(case, OURS), times.floor(case)
        rows.append(
            [
                f"{case.vocab:,}",
                str(case.depth),
                f"{case.batch:,}",
                str(case.kind),
                times.shown(case, FLOOR),
                times.shown(case, FLOOR_DEPENDENT),
                f"**{times.shown(case, OURS)}**",
                f"{times.shown(case, OURS, 'p05')} to {times.shown(case, OURS, 'p95')}",
                f"{float(ours / floor):.2f}" if ours else NOTHING,
                microseconds(times.memory[case.id]),
                *(_with_ratio(times, case, name) for name in peers),
            ]
        )
    return _markdown(rows)


def _with_ratio(times: Times, case: Case, name: str) -> str:
    """A peer's median, and how many times ours that is."""
    value, ours = times.nanoseconds(case, name), times.nanoseconds(case, OURS)
    return NOTHING if value is None or ours is None else f"{microseconds(value)} ({float(value / ours):.2f}x)"


def _markdown(rows: Iterable[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rest)]) + "\n"


def _left_out(predicate: Row) -> str:
    lines = ["## Not measured\n", *(f"- {one}" for one in EXCLUSIONS)]
    lines += [f"- {name} is absent: {why}" for name, why in sorted(predicate["absent"].items())]
    return "\n".join(lines) + "\n"
