"""Plant a fault in the text of our Triton kernels, and say who sees it: a few rows on a CPU, the trials on a GPU.

A copy of the files that hold device code is written with one text replaced, and loaded under names of its own; the real
modules are neither changed nor patched. A text that does not stand in its file exactly once is an error, so that a
change of the kernels cannot leave a fault unplanted. The unchanged text, loaded the same way, is the control.
"""

import importlib.util
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from pp3 import kernels
from pp3.harness.faults import triton_rows
from pp3.harness.faults.tried import Tried, attempt
from pp3.harness.faults.triton_fault import TextFault
from pp3.harness.faults.triton_proposal import PROPOSAL
from pp3.harness.faults.triton_rows import Launchers
from pp3.harness.faults.triton_verifier import VERIFIER
from pp3.harness.faults.triton_wide import WIDE
from pp3.harness.samplers.own import Kernels
from pp3.harness.verdict import Verdict

FAULTS = VERIFIER + PROPOSAL + WIDE
HOME = Path(kernels.__file__).parent
# An importer after what it imports.
FILES = (
    "philox",
    "exponential",
    "allocation",
    "groups",
    "selector",
    "row_sums",
    "walk",
    "search",
    "proposal",
    "rejection",
    "verifier",
)
IMPORT = "from pp3.kernels import "
COUNTER = 1
SEEN_BY: dict[str, Callable[[Launchers], str]] = {
    "bits": triton_rows.bits,
    "answers": triton_rows.answers,
    "wide": triton_rows.wide,
    "exact:draws": triton_rows.draws,
    "exact:edges": triton_rows.edges,
    "exact:columns": triton_rows.columns,
    "exact:invariance": triton_rows.far_rows,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the trials make of a planted fault."""

    verdict: Verdict
    caught_by: tuple[str, ...]  # kinds of failed checks; forbidden, breach, invalid
    reasons: tuple[str, ...]
    tried: Tried


@contextmanager
def planted(fault: TextFault | None) -> Iterator[tuple[ModuleType, ModuleType]]:
    """The modules of the proposal and the verifier with a fault in their text, or with none. ValueError as `edited`."""
    name = f"pp3_planted_{fault.id if fault else 'control'}".replace("-", "_")
    with tempfile.TemporaryDirectory(prefix="pp3-planted-") as folder:
        texts = {file: edited(file, fault).replace(IMPORT, f"from {name} import ") for file in FILES}
        sys.modules[name] = ModuleType(name)
        try:
            loaded = {file: _load(Path(folder), name, file, text) for file, text in texts.items()}
            yield loaded["proposal"], loaded["verifier"]
        finally:
            for module in (name, *(f"{name}.{file}" for file in FILES)):
                sys.modules.pop(module, None)


def edited(file: str, fault: TextFault | None) -> str:
    """The text of a file of pp3/kernels with a fault. ValueError unless the text to replace stands there once."""
    text = (HOME / f"{file}.py").read_text("utf-8")
    if fault is None or fault.file != file:
        return text
    if text.count(fault.old) != 1 or fault.old == fault.new:
        raise ValueError(
            f"fault {fault.id}: kernels/{file}.py holds {fault.old!r} {text.count(fault.old)} times; want once, and "
            "another text in its place: bring harness/faults up to the kernels"
        )
    return text.replace(fault.old, fault.new)


def few_rows(fault: TextFault | None, checks: tuple[str, ...] = tuple(SEEN_BY)) -> dict[str, str]:
    """What each of SEEN_BY says of a fault on few rows on a CPU, in Triton's interpreter; "" if it sees nothing."""
    with planted(fault) as (proposal, verifier):
        launchers = Launchers(proposal, verifier)
        return {check: SEEN_BY[check](launchers) for check in checks}


def run_on(
    fault: TextFault | None,
    device: str,
    requests: int,
    targets: tuple[str, ...] | None = None,
    counter: int = COUNTER,
) -> Outcome:
    """Try the kernels with a fault in their text, in this process; with none, the control.

    device: cuda, or cpu for Triton's interpreter. requests: of each law. targets: by default those of the fault, and
    all for the control. counter: selects the seed.
    """
    if targets is None:
        targets = fault.targets if fault else ()
    with planted(fault) as (proposal, verifier):
        tried = attempt(Kernels(proposal, verifier), "planted fault", targets, requests, counter, device)
    caught = {str(test.event) for test in tried.judged.tests if test.outcome == "fail"} | set(tried.witnesses())
    judged = tried.judged
    return Outcome(verdict=judged.verdict, caught_by=tuple(sorted(caught)), reasons=tuple(judged.reasons), tried=tried)


def _load(folder: Path, name: str, file: str, text: str) -> ModuleType:
    """Write a file and load it as a module of the package `name`; Triton reads its functions from the file."""
    path = folder / f"{file}.py"
    path.write_text(text, "utf-8")
    spec = importlib.util.spec_from_file_location(f"{name}.{file}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    setattr(sys.modules[name], file, module)
    spec.loader.exec_module(module)
    return module
