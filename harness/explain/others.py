"""What a campaign over the wire is held to besides its laws, and the words of a probe, which judges no law."""

from pp3.harness.explain.entry import Entry, Part

WIRE, PROBE = "docs/integration.md", "docs/performance.md"
EVERY = "one request in all"

ENTRIES = (
    Entry(
        name="wire:losses",
        part=Part.WIRE,
        tests="how many proposals were lost on the way, by what the engine saw",
        law="exactly those that plan and seed say were to be lost, each in its way",
        finds="a damaged, late or foreign frame that was taken; a good one that was refused",
        causes=(14,),
        sees=EVERY,
        required=True,
        aliases=(
            *("failed", "timed-out", "refused", "unanswered", "unexpected", "abandoned", "no-page", "proxy-down"),
            *("peer-lost", "unreadable", "foreign", "injected", "counted", "path"),
        ),
        page=WIRE,
    ),
    Entry(
        name="wire:altered",
        part=Part.WIRE,
        tests="every proposal that arrives against the one that was sent",
        law="equal ids, tickets and draws",
        finds="bytes that change on the way and are not refused",
        causes=(14,),
        sees=EVERY,
        required=True,
        page=WIRE,
    ),
    Entry(
        name="probe:floor",
        part=Part.PROBE,
        tests="as many empty launches, one after the other, in the same run as the kernels",
        law="nothing: a time is compared with others of its run, and decides no verdict",
        finds="how much of a round is the launching of it",
        sees="the spread that p05 to p95 state",
        fails="PROBED either way",
        aliases=("floor-dependent",),
        page=PROBE,
    ),
    Entry(
        name="probe:selector",
        part=Part.PROBE,
        tests="the time of drafting a round: ours and peers on the same tensors, bits compared before and after",
        law="nothing: times prove no law",
        finds="a selector that became slower; a result that timing changed (bits)",
        sees="the spread that p05 to p95 state",
        fails="PROBED, or FAIL where bits differ",
        aliases=("ours", "PROBED"),
        page=PROBE,
    ),
    Entry(
        name="probe:verifier",
        part=Part.PROBE,
        tests="the time of verifying a round: ours and peers on the same tensors, bits compared before and after",
        law="nothing: times prove no law",
        finds="a verifier that became slower; a result that timing changed (bits)",
        sees="the spread that p05 to p95 state",
        fails="PROBED, or FAIL where bits differ",
        page=PROBE,
    ),
)
