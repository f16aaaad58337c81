"""What `make vllm-check` runs: a fault that vLLM had and mended, found and found mended, without a GPU.

Up to 0.28.0 a draft shares its noise with the draw that replaces it; 0.29.0 salts it. Both pinned versions run in
Triton's interpreter on the target made for it. Exit 0 if the first fails and the second does not, else 1; 69 without
their files.
"""

import sys
import time
from collections.abc import Mapping

import click

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.samplers import registry
from pp3.harness.trial.api import qualify
from pp3.harness.verdict import Verdict

TARGET, REQUESTS = "shared-noise", 600
COUNTER = 1  # fixed, so that a rerun repeats
FAULTY, MENDED = "vllm-v2-pipeline-0.28.0", "vllm-v2-pipeline-0.29.0"


def verdict_of(name: str) -> Verdict:
    """Qualify one, and say what became of it."""
    started = time.perf_counter()
    entry = registry.find(name)
    reason = registry.missing(entry, gpu=False)
    if reason:
        raise PP3Error(reason, Exit.UNAVAILABLE)
    report = qualify(
        registry.load(entry), targets=[TARGET], requests=REQUESTS, device="cpu", counter=COUNTER, progress=say
    )
    click.echo(f"{report}\n  took {time.perf_counter() - started:.0f} s")
    return report.verdict


def say(who: str, done: int, total: int) -> None:
    """Progress, on a terminal only."""
    if sys.stderr.isatty():
        click.echo(f"\r{who}: {done} of {total} requests", err=True, nl=done == total)


def judge(verdicts: Mapping[str, Verdict]) -> str:
    """What is wrong with the verdicts, or ""."""
    if verdicts[FAULTY] is not Verdict.FAIL:
        return f"{FAULTY} shares draft noise and must FAIL, its verdict is {verdicts[FAULTY]}"
    if verdicts[MENDED] in (Verdict.FAIL, Verdict.INVALID):
        return f"{MENDED} is mended, its verdict is {verdicts[MENDED]}"
    return ""


def main() -> int:
    """Run both; the exit code."""
    try:
        wrong = judge({name: verdict_of(name) for name in (FAULTY, MENDED)})
    except PP3Error as error:
        click.echo(f"pp3: error: {error}", err=True)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    click.echo(wrong or "as it must be: the fault is found in 0.28.0, and not in 0.29.0, which mended it")
    return Exit.NEGATIVE if wrong else Exit.OK


if __name__ == "__main__":
    sys.exit(main())
