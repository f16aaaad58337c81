"""Write the pages of docs/reference: python3 -m pp3.harness.reference --write docs/reference."""

import sys
from pathlib import Path

import click

from pp3.harness.errors import PP3Error
from pp3.harness.reference.pages import write


@click.command()
@click.option("--write", "folder", type=click.Path(path_type=Path), required=True, help="Folder of the pages.")
def main(folder: Path) -> None:
    """Write every page of the reference from the code that it describes."""
    try:
        for path in write(folder):
            click.echo(str(path))
    except PP3Error as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(int(error.exit_code))


if __name__ == "__main__":
    main()
