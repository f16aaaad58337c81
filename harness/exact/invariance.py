"""One row, the same bits: in any company, layout and order of work, eager and replayed, for proposal and verifier.

Rows of logits come in three dtypes; rounds have both depths, with the carrier and as point masses. Each row has a key
of its own. The compared rows, run in order, must have the digest of the reference, and in every way the same bits. On a
CPU the reference is met, in company only; on a GPU the kernels, also as the last rows of more than 2^31 elements.
"""

import numpy as np

from pp3.harness.backends import Backend, Dtype
from pp3.harness.exact import invariance_proposal, invariance_verifier
from pp3.harness.exact.company import COMPANIES, Array, Met, Outputs, Run
from pp3.harness.exact.enumeration import Enumeration, Values, digest
from pp3.harness.exact.invariance_proposal import Rows
from pp3.harness.exact.invariance_verifier import DEPTHS, PATHS, Rounds, Table
from pp3.kernels.reference import TAU, propose, quantise, verify, verify_rows

LATE_VOCAB = 131_072
LATE_ROWS, LATE_REQUESTS = 16_400, 3_300  # 2,149,580,800 and, of six rows each, 2,595,225,600 elements
LATE_LAYOUTS = ("by-request", "by-position")
CLAIM = (
    "proposal and verifier: the same bits alone, in any slot and batch, beside failed rows and other keys; on a GPU "
    "also padded, strided, after other work, by graph replay and past 2^31 elements"
)
WAYS = {"proposal": invariance_proposal.WAYS, "verify": invariance_verifier.WAYS}


def expect(gpu: bool) -> Values:
    """The reference's digest of every case, and no row that differs in any way."""
    values: Values = {}
    for vocab in invariance_proposal.vocabularies(gpu):
        for dtype in Dtype:
            values[_name(dtype, vocab)] = _digest_of_rows(Rows(vocab, dtype))
    for vocab in invariance_verifier.vocabularies(gpu):
        values |= _digests_of_rounds(_cases(Table(vocab)))
    for kind, ways in WAYS.items():
        values[f"ways-that-differ/{kind}"] = [0] * len(ways if gpu else COMPANIES)
    if gpu:
        for dtype in Dtype:
            values[f"past-2^31/proposal/{dtype.value}"] = _digest_of_rows(Rows(LATE_VOCAB, dtype))
        late = [f"past-2^31/verify/{layout}" for layout in LATE_LAYOUTS]
        values |= _digests_of_rounds(dict.fromkeys(late, _late()))
    return values


def size(gpu: bool) -> int:
    """Rows compared in all ways, and the last rows of the largest tensors."""
    late = len(Dtype) * invariance_proposal.COMPARED + len(LATE_LAYOUTS) * invariance_verifier.COMPARED
    return invariance_proposal.size(gpu) + invariance_verifier.size(gpu) + (late if gpu else 0)


def observe(device: Backend) -> Enumeration:
    """On a GPU or on the reference."""
    return observe_kernels("cuda") if device is Backend.CUDA else observe_reference()


def observe_reference() -> Enumeration:
    """In all company: what the reference can vary."""
    found = Tally(False)
    for vocab in invariance_proposal.vocabularies(False):
        for dtype in Dtype:
            met = invariance_proposal.meet(_proposed(Rows(vocab, dtype)), False, vocab)
            found.add("proposal", _name(dtype, vocab), met)
    for vocab in invariance_verifier.vocabularies(False):
        for name, rounds in _cases(Table(vocab)).items():
            found.add("verify", name, invariance_verifier.meet(_judged(rounds), False, vocab))
    return found.enumeration()


def observe_kernels(place: str) -> Enumeration:
    """In every way on a torch device; in the interpreter only with smaller constants and without graph replay."""
    import torch

    from pp3.harness.exact import invariance_kernels as kernels

    device = torch.device(place)
    found = Tally(True)
    for vocab in invariance_proposal.vocabularies(True):
        for dtype in Dtype:
            case = kernels.Proposals(Rows(vocab, dtype), device)
            found.add("proposal", _name(dtype, vocab), invariance_proposal.meet(case.run, True, vocab))
    for vocab in invariance_verifier.vocabularies(True):
        for name, rounds in _cases(Table(vocab)).items():
            judge = kernels.Verifications(rounds, device)
            found.add("verify", name, invariance_verifier.meet(judge.run, True, vocab))
    for dtype in Dtype:
        late = kernels.late_proposals(Rows(LATE_VOCAB, dtype), LATE_ROWS, device)
        found.add_late(f"proposal/{dtype.value}", late)
    for layout in LATE_LAYOUTS:
        found.add_late(f"verify/{layout}", kernels.late_rounds(_late(), LATE_REQUESTS, device, layout))
    return found.enumeration()


class Tally:
    """The values of an enumeration as its cases are met."""

    def __init__(self, gpu: bool) -> None:
        self.values: Values = {}
        self.differing = {kind: dict.fromkeys(ways if gpu else COMPANIES, 0) for kind, ways in WAYS.items()}
        self.compared = 0

    def add(self, kind: str, name: str, met: Met) -> None:
        """A case in all its ways."""
        self.values[name] = digest(*met.want)
        for way, rows in met.differing.items():
            self.differing[kind][way] += rows
        self.compared += met.compared

    def add_late(self, name: str, found: Outputs) -> None:
        """The last rows of a large tensor."""
        self.values[f"past-2^31/{name}"] = digest(*found)
        self.compared += len(found[0])

    def enumeration(self) -> Enumeration:
        """All that was added."""
        self.values |= {f"ways-that-differ/{kind}": [*rows.values()] for kind, rows in self.differing.items()}
        return Enumeration(id="invariance", claim=CLAIM, compared=self.compared, values=self.values)


def _cases(table: Table) -> dict[str, Rounds]:
    """The rounds of one vocabulary by depth and path."""
    return {
        f"verify/{path}/vocab-{table.vocab}/depth-{depth}": Rounds(table, depth, path)
        for depth in DEPTHS
        for path in PATHS
    }


def _late() -> Rounds:
    return Rounds(Table(LATE_VOCAB), max(DEPTHS), PATHS[0])


def _name(dtype: Dtype, vocab: int) -> str:
    return f"proposal/{dtype.value}/vocab-{vocab}"


def _proposed(rows: Rows) -> Run:
    """The reference's proposal from logits of chosen rows."""

    def run(which: Array, way: str) -> Outputs:
        address = (rows.keys[which], rows.rounds[which], rows.positions[which])
        return propose(rows.logits[which], rows.sampled[which], *address, TAU)

    return run


def _judged(rounds: Rounds) -> Run:
    """The reference's verification of chosen requests."""

    def run(which: Array, way: str) -> Outputs:
        return verify(rounds.table.probs[rounds.row[which]], *rounds.inputs(which))

    return run


def _digest_of_rows(rows: Rows) -> str:
    return digest(*_proposed(rows)(np.arange(invariance_proposal.COMPARED), "plain"))


def _digests_of_rounds(cases: dict[str, Rounds]) -> Values:
    """Of cases that share a table, put on the grid once."""
    which = np.arange(invariance_verifier.COMPARED)
    rows = quantise(next(iter(cases.values())).table.probs)
    return {
        name: digest(*verify_rows(rows, rounds.row[which], *rounds.inputs(which))) for name, rounds in cases.items()
    }
