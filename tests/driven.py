"""Pieces of work, and what came of each."""

import os
from collections.abc import Callable
from typing import Any

from pp3.harness.operations.drive import drive
from pp3.harness.operations.engines import Engine
from pp3.harness.operations.order import Order

ORDERS: dict[str, Order] = {f"piece-{number}": {"name": f"piece-{number}", "number": number} for number in range(20)}


def square(order: Order) -> dict[str, Any]:
    """Work that cannot fail."""
    return {"name": order["name"], "square": order["number"] ** 2, "pid": os.getpid()}


def taken(engine: Engine, orders: dict[str, Order], work: Callable[..., Any] = square) -> dict[str, dict[str, Any]]:
    """What came of each piece; each came once."""
    found: dict[str, dict[str, Any]] = {}

    def take(part: dict[str, Any]) -> None:
        assert part["name"] not in found
        found[part["name"]] = part

    drive(orders, engine, take, work=work)
    return found
