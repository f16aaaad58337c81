"""Hold an implementation against known answers: files in the format of tests/vectors.

A case is one row of propose.json or one round of verify.json; its name is a label. Source: semantics sections 2 and 3.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from pp3.harness.backends import Arithmetic, Dtype
from pp3.harness.errors import CampaignError
from pp3.kernels.addressing import Purpose, request_key
from pp3.kernels.reference import OK, SUPPORT

KNOWN_ANSWERS = ("propose.json", "verify.json")  # files of tests/vectors that every campaign holds


class Expected(msgspec.Struct, frozen=True):
    """What a case must give; a proposal has ids and tickets, a verification tokens and a length."""

    status: Literal["ok", "failed"]
    token: int | None = None
    ids: list[int] | None = None
    tickets: list[int] | None = None
    tokens: list[int] | None = None
    num_sampled: int | None = None


class ProposeCase(msgspec.Struct, frozen=True):
    """One row to draft from: logits are little-endian bytes in hexadecimal."""

    name: str
    dtype: Dtype
    tau: float
    logits: str
    vocab: int
    sampled: bool
    session: str
    slot: int
    generation: int
    seed: str
    round: str
    position: str
    key: str
    expect: Expected


class VerifyCase(msgspec.Struct, frozen=True):
    """One round to verify: target_fp32 holds depth + 1 rows of little-endian FP32 in hexadecimal."""

    name: str
    vocab: int
    depth: int
    sampled: bool
    target_fp32: str
    drafts: list[int]
    ids: list[list[int]]
    tickets: list[list[int]]
    session: str
    slot: int
    generation: int
    seed: str
    round: str
    base_position: str
    expect: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first thing that is not as expected."""

    case: str
    field: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FileResult:
    """One file of known answers, judged."""

    file: str
    sha256: str
    passed: int
    total: int
    first_difference: Difference | None


def load(path: Path) -> list[ProposeCase] | list[VerifyCase]:
    """Read a file of cases. CampaignError for a missing, malformed or wire file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CampaignError(f"{path}: {error.strerror}; give a file like tests/vectors/propose.json") from None
    try:
        head = msgspec.json.decode(content)
        if isinstance(head, dict) and "valid" in head:
            raise CampaignError(f"{path}: a wire file; this version has no transport yet, give propose or verify files")
        is_verify = isinstance(head, list) and bool(head) and isinstance(head[0], dict) and "target_fp32" in head[0]
        if is_verify:
            return msgspec.json.decode(content, type=list[VerifyCase])
        return msgspec.json.decode(content, type=list[ProposeCase])
    except msgspec.MsgspecError as error:
        raise CampaignError(f"{path}: {error}; give a file like tests/vectors/propose.json") from None


def run(path: Path, backend: Arithmetic) -> FileResult:
    """Judge every case of a file on a backend; cases of one shape go through it together."""
    cases: list[ProposeCase | VerifyCase] = [*load(path)]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for number, case in enumerate(cases):
        shape = (case.dtype, case.vocab, case.tau) if isinstance(case, ProposeCase) else (case.vocab, case.depth)
        groups.setdefault(shape, []).append(number)
    found: dict[int, Difference | None] = {}
    for members in groups.values():
        together: Any = [cases[number] for number in members]
        judge: Any = _propose if isinstance(together[0], ProposeCase) else _verify
        try:
            found |= zip(members, judge(together, backend), strict=True)
        except (ValueError, OverflowError) as error:
            names = ", ".join(case.name for case in together[:3])
            raise CampaignError(f"{path}: case {names}: {error}") from None
    differences = [found[number] for number in range(len(cases))]
    return FileResult(
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        passed=sum(difference is None for difference in differences),
        total=len(cases),
        first_difference=next((difference for difference in differences if difference), None),
    )


def _key(case: ProposeCase | VerifyCase, purpose: Purpose) -> int:
    return request_key(bytes.fromhex(case.session), case.slot, case.generation, int(case.seed), purpose)


def _u64(values: Iterable[int | str]) -> Any:
    return np.array([int(value, 16) if isinstance(value, str) else value for value in values], np.uint64)


def _logits(case: ProposeCase) -> Any:
    raw = bytes.fromhex(case.logits)
    if case.dtype is Dtype.BF16:
        logits = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        logits = np.frombuffer(raw, "<f2" if case.dtype is Dtype.FP16 else "<f4").astype(np.float32)
    if len(logits) != case.vocab:
        raise ValueError(f"{case.name}: logits hold {len(logits)} values for a vocabulary of {case.vocab}")
    return logits


def _propose(cases: list[ProposeCase], backend: Arithmetic) -> list[Difference | None]:
    keys = [_key(case, Purpose.PROPOSAL) for case in cases]
    drafts = backend.propose(
        np.stack([_logits(case) for case in cases]),
        cases[0].dtype,
        np.array([case.sampled for case in cases]),
        _u64(keys),
        _u64(case.round for case in cases),
        _u64(case.position for case in cases),
        cases[0].tau,
    )
    return [
        _compare(
            case,
            key=f"{keys[row]:016x}",
            status=_status(drafts.status[row]),
            token=int(drafts.token[row]),
            ids=drafts.ids[row].tolist(),
            tickets=drafts.tickets[row].tolist(),
        )
        for row, case in enumerate(cases)
    ]


def _check_shapes(case: VerifyCase) -> None:
    sizes = {"drafts": len(case.drafts), "ids": len(case.ids), "tickets": len(case.tickets)}
    for name, size in sizes.items():
        if size != case.depth:
            raise ValueError(f"{case.name}: {size} {name} at depth {case.depth}; give one for each position")
    for name, rows in (("ids", case.ids), ("tickets", case.tickets)):
        short = [len(row) for row in rows if len(row) != SUPPORT]
        if short:
            raise ValueError(f"{case.name}: a row of {short[0]} {name}; a support has {SUPPORT}")


def _verify(cases: list[VerifyCase], backend: Arithmetic) -> list[Difference | None]:
    for case in cases:
        _check_shapes(case)
    shape = (cases[0].depth + 1, cases[0].vocab)
    verified = backend.verify(
        np.stack([np.frombuffer(bytes.fromhex(case.target_fp32), "<f4").reshape(shape) for case in cases]),
        np.array([case.drafts for case in cases], np.int32),
        np.array([case.ids for case in cases], np.int32),
        np.array([case.tickets for case in cases], np.int32),
        np.array([case.sampled for case in cases]),
        _u64(_key(case, Purpose.VERIFY) for case in cases),
        _u64(case.round for case in cases),
        _u64(case.base_position for case in cases),
    )
    return [
        _compare(
            case,
            status=_status(verified.status[row]),
            tokens=verified.tokens[row].tolist(),
            num_sampled=int(verified.num_sampled[row]),
        )
        for row, case in enumerate(cases)
    ]


def _status(code: int) -> str:
    return "ok" if code == OK else "failed"


def _compare(case: ProposeCase | VerifyCase, **got: Any) -> Difference | None:
    for field, value in got.items():
        expected = case.key if field == "key" and isinstance(case, ProposeCase) else getattr(case.expect, field)
        if value != expected:
            return Difference(case=case.name, field=field, expected=expected, got=value)
    return None
