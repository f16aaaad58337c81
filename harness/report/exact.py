"""What the pages of exact results show beside their receipts: distances, and what was compared."""

from typing import Any

from pp3.harness.report.pictures.compared import compared_picture
from pp3.harness.report.pictures.distances import device_picture, tickets_picture


def oracle(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template of the bridge to the rational law."""
    policies = predicate["policies"]
    rounds = [one for policy in policies for one in policy["survey"]["bridges"]]
    equal = sum(not one["fault"] for one in rounds)
    rows = sum(len(policy["distances"]) for policy in policies)
    return {
        "figures": [
            (f"{equal:,} of {len(rounds):,}", "rounds whose law equals the target as a rational"),
            (f"{rows:,}", "rows of tickets, as the device emitted them"),
            (f"{len(policies):,}", "policies"),
        ],
        "pictures": [tickets_picture("tickets", policies), device_picture("device", policies)] if policies else [],
    }


def exhaustive(predicate: dict[str, Any]) -> dict[str, Any]:
    """Values for the template of the enumerations."""
    rows = [(row["id"], row["compared"], row["claim"]) for row in predicate["enumerations"]]
    return {
        "figures": [
            (f"{sum(row[1] for row in rows):,}", "comparisons, each with the one right value"),
            (f"{len(predicate['reasons']):,}", "findings against the sampler"),
            (f"{sum(file['passed'] for file in predicate['kernels']['conform']):,}", "known answers passed"),
        ],
        "pictures": [compared_picture("compared", rows)] if rows else [],
    }
