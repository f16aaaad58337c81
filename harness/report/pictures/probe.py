"""Times of a round by batch size: the floor, ours and each peer, a picture a vocabulary; of kinds of rows, ours."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from pp3.harness.probe.plan import OURS, Cache, Case, Job, Kind, Part, contenders
from pp3.harness.probe.tables import Times
from pp3.harness.report.pictures.svg import INK, LAW, SOFT, WARN, WIDTH, Picture, draw, log_axis

HEIGHT = 3.0  # inches
MARKS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">")
TITLE = "Time of a round by batch size"


def selector_pictures(name: str, times: Times) -> list[Picture]:
    """Of the deepest round on random rows, a picture for each vocabulary, hot and cold."""
    found = times.cases(Part.SELECTOR)
    deepest = max((case.depth for case in found), default=0)
    pictures = []
    for vocab in sorted({case.vocab for case in found}):
        for cache in Cache:
            size = (vocab, deepest, Kind.RANDOM, cache)
            some = [case for case in found if (case.vocab, case.depth, case.kind, case.cache) == size]
            if some:
                what = f"selector, vocabulary {vocab:,}, depth {deepest}, random rows, {cache}"
                pictures.append(_by_batch(f"{name}-{vocab}-{cache}", times, some, what))
    return pictures


def verifier_pictures(name: str, times: Times) -> list[Picture]:
    """A picture a vocabulary."""
    found = times.cases(Part.VERIFIER)
    pictures = []
    for vocab in sorted({case.vocab for case in found}, reverse=True):
        some = [case for case in found if case.vocab == vocab]
        what = f"verifier, vocabulary {vocab:,}, depth {some[0].depth}"
        pictures.append(_by_batch(f"{name}-{vocab}", times, some, what))
    return pictures


def rows_picture(name: str, times: Times) -> list[Picture]:
    """Ours by kind of rows, at the largest vocabulary and depth, hot."""
    found = [case for case in times.cases(Part.SELECTOR) if case.cache is Cache.HOT]
    if not any(case.kind is not Kind.RANDOM for case in found):
        return []
    vocab, depth = max(case.vocab for case in found), max(case.depth for case in found)
    some = [case for case in found if (case.vocab, case.depth) == (vocab, depth)]
    kinds = [kind for kind in Kind if any(case.kind is kind for case in some)]
    values = {case: float(times.nanoseconds(case, OURS) or 0) / 1000 for case in some}
    slowest = max(some, key=lambda case: values[case])
    finding = f"The slowest rows are {slowest.kind} at batch {slowest.batch}: {times.shown(slowest, OURS)} us."

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.13, "right": 0.72})
        for at, kind in enumerate(kinds):
            mine = [case for case in some if case.kind is kind]
            axes.plot(
                [case.batch for case in mine],
                [values[case] for case in mine],
                color=LAW if kind is Kind.RANDOM else INK,
                marker=MARKS[at],
                markersize=4,
                label=str(kind),
            )
        axes.set_ylim(bottom=0)
        axes.set_xticks(sorted({case.batch for case in some}))
        axes.set_xlabel("batch")
        axes.set_ylabel("us a round")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))

    title = f"Ours by kind of rows, vocabulary {vocab:,}, depth {depth}, hot"
    return [
        Picture(
            title=title,
            finding=finding,
            svg=draw(name, f"{title}. {finding}", (WIDTH, HEIGHT), plot),
            head=("rows", "batch", "median, us"),
            rows=[(str(case.kind), case.batch, times.shown(case, OURS)) for case in some],
        )
    ]


def _by_batch(name: str, times: Times, some: Sequence[Case], what: str) -> Picture:
    """A line a contestant, microseconds on a logarithmic axis."""
    timed = [one for one in contenders(some[0].part) if any(one.name in times.lines[case.id] for case in some)]
    batches = [case.batch for case in some]

    def plot(figure: Figure) -> None:
        axes = figure.subplots(gridspec_kw={"left": 0.12, "right": 0.66})
        for at, one in enumerate(timed):
            measured = [(case.batch, times.nanoseconds(case, one.name)) for case in some]
            pairs = [(batch, float(value) / 1000) for batch, value in measured if value is not None]
            axes.plot(
                *zip(*pairs, strict=True),
                color={Job.OURS: LAW, Job.WHOLE: WARN}.get(one.job, SOFT),
                marker=MARKS[at % len(MARKS)],
                markersize=4,
                linewidth=2.2 if one.job is Job.OURS else 1.0,
                linestyle={Job.FLOOR: ":", Job.PART: "--"}.get(one.job, "-"),
                label=one.name,
            )
        axes.set_xlim(batches[0] - 0.5, batches[-1] + 0.5)
        axes.set_xticks(batches, [f"{batch:,}" for batch in batches])
        axes.set_xlabel("batch")
        axes.set_yscale("log")
        log_axis(axes.yaxis)
        axes.set_ylabel("us a round")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7)

    finding = _finding(times, some)
    title = f"{TITLE}: {what}"
    names = [one.name for one in timed]
    return Picture(
        title=title,
        finding=finding,
        svg=draw(name, f"{title}. {finding}", (WIDTH, HEIGHT), plot),
        head=("vocabulary", "batch", *names),
        rows=[(case.vocab, case.batch, *(times.shown(case, one) for one in names)) for case in some],
        note="Dotted: floors. Dashed: less than our work.",
    )


def _finding(times: Times, some: Sequence[Case]) -> str:
    """How near the floor, and the nearest who does the same work."""
    floors = [float((times.nanoseconds(case, OURS) or 0) / times.floor(case)) for case in some]
    near = [(found[1], found[0], case) for case in some if (found := times.nearest(case)) is not None]
    said = f"Ours takes {min(floors):.2f} to {max(floors):.2f} times the floor of as many launches"
    if not near:
        return f"{said}; nobody else ran."
    ratio, name, case = min(near, key=lambda one: one[0])
    where = f"vocabulary {case.vocab:,}, batch {case.batch:,}"
    return f"{said}; the nearest that does the same work is {name}, {float(ratio):.2f} times ours ({where})."
