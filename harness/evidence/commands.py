"""The commands of `pp3` that judge a receipt: verify, sign, ledger. Their work is imported when they run."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pp3.harness.errors import CampaignError, Exit, ReceiptError

if TYPE_CHECKING:
    from pp3.harness.evidence.verified import Verified

VERDICTS = click.Choice(["PASS", "TOLERATED", "FAIL", "INCONCLUSIVE", "INVALID", "PROBED"])
PATH = click.Path(path_type=Path)


@click.command()
@click.argument("receipt", type=PATH)
@click.option("--source", type=PATH, help="Compare the bound sources with this tree: a difference exits 3.")
@click.option("--ledger", type=PATH, help="Ledger that says what is superseded. Default: above the receipt, or ours.")
@click.option("--key", type=PATH, help="Allowed signers (man ssh-keygen): RECEIPT.sig must be by one of them.")
@click.option("--signer", help="Of the allowed signers, only this one.")
@click.option("--replay", type=PATH, help="Receipt that pp3 replay made of this one: its integers must be equal.")
@click.option("--expect-sampler", default="", metavar="NAME[==VERSION]", help="Fail unless it is of this sampler.")
@click.option(
    "--expect-source",
    multiple=True,
    metavar="[NAME=]SHA256",
    help="Fail unless a file of this digest is bound; may be repeated.",
)
@click.option("--require-verdict", type=VERDICTS, help="Exit 1 unless the verified verdict is this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(
    receipt: Path,
    source: Path | None,
    ledger: Path | None,
    key: Path | None,
    signer: str | None,
    replay: Path | None,
    expect_sampler: str,
    expect_source: tuple[str, ...],
    require_verdict: str | None,
    as_json: bool,
) -> int:
    """Recompute everything in a receipt that can be recomputed; needs neither torch nor a GPU."""
    from pp3.harness.evidence import verify as verification
    from pp3.harness.evidence.review import Review

    review = Review(
        source=source,
        ledger=ledger,
        key=key,
        signer=signer,
        replay=replay,
        sampler=expect_sampler,
        sources=expect_source,
    ).checked()
    found = verification.verify(receipt, _content(receipt), review=review)
    if as_json:
        fields = {"verified": found.ok, "verdict": found.verdict, "sha256": found.sha256, "current": found.current}
        more = {"assurance": found.assurance, "supersededBy": found.by or None, "steps": found.steps}
        click.echo(msgspec.json.encode(fields | more).decode())
    else:
        for line in _lines(found):
            click.echo(line)
    if found.failed:
        return Exit.NEGATIVE
    if require_verdict and found.verdict != require_verdict:
        click.echo(f"pp3: the verdict is {found.verdict}, {require_verdict} was required", err=True)
        return Exit.NEGATIVE
    if require_verdict and not as_json:
        click.echo(f"pp3: the verdict is {found.verdict}, as required", err=True)
    return Exit.OK if found.ok and found.current != "no" and not found.by else Exit.INCONCLUSIVE


def _lines(found: "Verified") -> list[str]:
    """A line a step, and the conclusion, which is the last line."""
    from pp3.harness import terminal

    said = []
    for number, step in enumerate(found.steps, 1):
        said += terminal.step(step.outcome, f"{step.name}: {step.detail}", f"{number:2} ")
    return [*said, *terminal.sentence(found.sentence)]


@click.command()
@click.argument("receipt", type=PATH)
@click.option("--key", type=PATH, required=True, help="Private key of ssh-keygen; it stays where it is.")
def sign(receipt: Path, key: Path) -> int:
    """Sign a receipt that verifies, with ssh-keygen: writes RECEIPT.sig beside it."""
    from pp3.harness.evidence import signature
    from pp3.harness.evidence import verify as verification

    content = _content(receipt)
    found = verification.verify(receipt, content)
    if not found.ok and not found.elsewhere:
        raise ReceiptError(f"{receipt}: {found.sentence}; only what verifies is signed")
    click.echo(str(signature.sign(receipt, content, key)))
    return Exit.OK


def _content(receipt: Path) -> bytes:
    """The bytes of a receipt."""
    try:
        return receipt.read_bytes()
    except OSError as error:
        raise CampaignError(f"{receipt}: {error.strerror}; give the path of a receipt") from None


@click.group()
def ledger() -> None:
    """Record committed receipts in receipts/LEDGER, and check it."""


LEDGER = click.option("--ledger", "path", type=PATH, help="Default: the checkout's receipts/LEDGER.")


@ledger.command()
@click.argument("receipts", type=PATH, nargs=-1, required=True)
@click.option("--supersedes", metavar="SHA256", help="Recorded receipt in whose place this one stands.")
@click.option("--reason", help="Why it does.")
@LEDGER
def add(receipts: tuple[Path, ...], supersedes: str | None, reason: str | None, path: Path | None) -> int:
    """Append a line for each receipt; nothing is ever changed or removed."""
    from pp3.harness.evidence import ledger_command

    return ledger_command.add(receipts, supersedes, reason, path)


@ledger.command()
@LEDGER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(path: Path | None, as_json: bool) -> int:
    """Hold the ledger against the receipts beside it: lines, digests, verdicts, sequence, cycles."""
    from pp3.harness.evidence import ledger_command

    return ledger_command.check(path, as_json)


ALL = (verify, sign, ledger)
