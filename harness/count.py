"""A number of requests or tokens as a command line takes it: 20000, 20_000 or 2e4."""

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from pp3.harness.echo import echo

LONGEST = 18  # digits
if TYPE_CHECKING:
    Parameter = click.ParamType[int]
else:
    Parameter = click.ParamType  # which older versions of click do not subscript


class Count(Parameter):
    """A whole number, in scientific notation too."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Click's error for what is not whole, is not finite or has more than 18 digits."""
        try:
            number = Decimal(value)
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite() or number.adjusted() >= LONGEST or number != number.to_integral_value():
            self.fail(f"{echo(value)} is not a whole number of at most {LONGEST} digits, like 20000 or 2e4", param, ctx)
        return int(number)


COUNT = Count()
