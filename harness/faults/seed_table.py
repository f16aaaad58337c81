"""Faults at many seeds, as docs/faults.md shows them: from the JSON of one run, which is kept beside the page.

pp3 faults --seeds 100 --jobs 32 --json > docs/faults-seeds.json
python -m pp3.harness.faults.seed_table        # writes the section anew
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.faults.exact import PREFIX
from pp3.harness.faults.outcome import Outcome
from pp3.harness.faults.seeds import ENOUGH, FAST, SLOW
from pp3.harness.paths import find_checkout

PAGE, MEASURED = Path("docs/faults.md"), Path("docs/faults-seeds.json")
HEADING = "\n## At many seeds\n\n"
BEGIN, END = "<!-- begin: python -m pp3.harness.faults.seed_table -->\n", "<!-- end -->\n"
BAD = (Outcome.ESCAPED, Outcome.CONTROL_FAIL)
Rows = Sequence[Mapping[str, Any]]


def section(rows: Rows) -> str:
    """What became of every fault of a law and every control at its seeds, worst first."""
    tried = [row for row in rows if row["requests"] and not row["witness"].startswith(PREFIX)]
    fast = [row for row in tried if row["fast"]]
    seeds = sum(row["seeds"] for row in tried)
    missed = sum(row["seeds"] - row["caught"] for row in tried)
    bad = [row["id"] for row in tried if row["verdict"] in BAD]
    spent = sum(row["cpu_seconds"] * row["seeds"] for row in tried)
    outcome = f"not as it must: {', '.join(bad)}" if bad else "every fault is caught and every control passes"
    said = (
        f"{len(tried)} faults of a law and controls, {seeds:,} seeds, {spent:,.0f} CPU seconds. Fast is what takes at "
        f"most {FAST:g} CPU seconds\nat its first seed: of those, {len(fast)}, all seeds asked for were run, of the "
        f"others at most {SLOW}. A fault counts as caught if its\nnamed check rejects it at {ENOUGH} of 100 seeds or "
        f"more; a control must pass all. {missed} of all seeds came out otherwise; {outcome}."
    )
    ordered = sorted(tried, key=lambda row: row["caught"] / row["seeds"])
    lines = ["| fault | named check | as it must be | seeds | CPU seconds a seed | fast |", "|---" * 6 + "|"]
    for row in ordered:
        cells = (
            row["id"],
            row["witness"] or "none: a control",
            f"{row['caught']:,}",
            f"{row['seeds']:,}",
            f"{row['cpu_seconds']:.2f}",
            "yes" if row["fast"] else "no",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return said + "\n\n" + "\n".join(lines) + "\n"


def committed(root: Path | None = None) -> str:
    """The section of a checkout's page, heading and marks included; "" where no run is kept."""
    root = find_checkout() if root is None else root
    if root is None or not (root / MEASURED).is_file():
        return ""
    rows = msgspec.json.decode((root / MEASURED).read_bytes())["faults"]
    return HEADING + BEGIN + section(rows) + END


def write(root: Path | None) -> None:
    """Write the section of a checkout's page anew. CampaignError where there is nothing to write."""
    if root is None or not (found := committed(root)):
        raise CampaignError(f"no {MEASURED} here; make it: pp3 faults --seeds 100 --jobs 32 --json > {MEASURED}")
    page = root / PAGE
    before, _, _ = page.read_text("utf-8").partition(HEADING)
    page.write_text(before + found, "utf-8")


if __name__ == "__main__":
    try:
        write(find_checkout())
    except PP3Error as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    sys.exit(Exit.OK)
