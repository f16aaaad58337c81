"""The receipts of exact results, checked from their integers: enumerations, and the bridge to the rational law."""

from collections.abc import Iterator
from typing import Any

from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.errors import VerificationError
from pp3.harness.evidence import kernels
from pp3.harness.evidence.step import Concluded, at, ok, same_verdict
from pp3.harness.evidence.verified import Step
from pp3.harness.exact import oracle, suite


def check_fixed(predicate: dict[str, Any]) -> None:
    """What a receipt of exact results must hold beside them."""
    profile, tool, shown = predicate["profile"], predicate["tool"].get("name"), predicate["kernels"]
    if (profile, tool) != ("exact", "pp3"):
        raise VerificationError(f"shape: profile {profile!r}, tool {tool!r}; want exact, pp3")
    answers = [row["file"] for row in shown["conform"]]
    if answers != list(KNOWN_ANSWERS) or shown["bits"] or "missing" in shown:
        raise VerificationError(
            f"shape: known answers of {answers}; want {list(KNOWN_ANSWERS)}, no bits, nothing missing"
        )


def recomputed(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of exact results: every stored integer against the one it must be."""
    who = (predicate["sampler"], predicate["kernels"])
    concluded: Concluded
    at("kernels", kernels.check_answers, predicate["kernels"]["conform"])
    yield ok("kernels", "known answers of the files installed here")
    if predicate["kind"] == "oracle":
        concluded = at("recompute policies", oracle.conclude, predicate["policies"], *who)
        yield ok("recompute policies", f"{len(predicate['policies'])} bridged again from the stored tickets")
    else:
        rows = predicate["enumerations"]
        concluded = at("recompute enumerations", suite.conclude, rows, *who)
        values = sum(len(row["values"]) for row in rows)
        yield ok("recompute enumerations", f"{values:,} entries of {len(rows)} enumerations")
    yield same_verdict(concluded, predicate)
