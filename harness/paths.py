"""Where things lie: in a checkout that holds pp3, or beside an installed package. Never by the current directory."""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def find_checkout() -> Path | None:
    """The root of the checkout this code runs from, links kept or dereferenced; None for an installed package."""
    for root in (HERE.parent, HERE.parent.parent):
        if all((root / part).exists() for part in ("pyproject.toml", "pp3", "harness", "kernels", "targets")):
            return root
    return None


def find_vectors() -> Path | None:
    """The folder of known answers."""
    checkout = find_checkout()
    candidates = [HERE / "vectors", *([checkout / "tests" / "vectors"] if checkout else [])]
    return next((folder for folder in candidates if (folder / "propose.json").is_file()), None)
