"""Hold the wire against known answers: a file in the format of tests/vectors/wire.json.

A valid frame must be accepted, decode to the values beside it and be encoded to the same bytes; a refused one must be
refused by a rule. A case's name labels it and is no code.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from pp3.harness.conform import Difference, FileResult
from pp3.harness.errors import CampaignError
from pp3.harness.transport import hello, step, wire
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.refusal import FrameError

REFUSED = "refused"


class ExpectedCase(msgspec.Struct, frozen=True):
    """What a reply is held against."""

    session: str
    sequence: int
    round: int
    n: int
    depth: int
    generations: list[int]
    sampled: list[bool]
    vocab: int

    def asked(self, mode: Mode) -> wire.Asked:
        """The same for the decoder. ValueError unless there are n rows."""
        if not len(self.generations) == len(self.sampled) == self.n:
            raise ValueError(f"{len(self.generations)} generations and {len(self.sampled)} sampled for n = {self.n}")
        return wire.Asked(
            mode=mode,
            session=bytes.fromhex(self.session),
            sequence=self.sequence,
            round=self.round,
            depth=self.depth,
            generations=tuple(self.generations),
            sampled=tuple(self.sampled),
            vocab=self.vocab,
        )


class Decoded(msgspec.Struct, frozen=True):
    """The values of a reply; mode 0 has the first two."""

    status: list[int]
    tokens: list[list[int]]
    mask: list[int] | None = None
    ids: list[list[list[int]]] | None = None
    tickets: list[list[list[int]]] | None = None


class ValidCase(msgspec.Struct, frozen=True):
    """A frame that is accepted."""

    name: str
    bytes: int
    expected: ExpectedCase
    frame: str
    decode: Decoded


class RefusedCase(msgspec.Struct, frozen=True):
    """A reply that is refused."""

    name: str
    expected: ExpectedCase
    frame: str


class NamedFrame(msgspec.Struct, frozen=True):
    """Any other frame that is refused or accepted."""

    name: str
    frame: str


class HelloCases(msgspec.Struct, frozen=True):
    """Of the frame that opens a session."""

    accepted: str
    identities: list[str]
    refused: list[NamedFrame]
    also_accepted: list[NamedFrame]


class StepRow(msgspec.Struct, frozen=True):
    """A request of a step."""

    seed: str
    sampled: bool
    slot: int
    generation: int
    position: int


class StepCases(msgspec.Struct, frozen=True):
    """Of the frame that asks for a round."""

    rows: list[StepRow]
    round: int
    depth: int
    frame: str
    refused: list[NamedFrame]


class UnsampledCase(msgspec.Struct, frozen=True):
    """A round in mode 0."""

    step: str
    expected: ExpectedCase
    frame: str
    decode: Decoded


class WireCases(msgspec.Struct, frozen=True):
    """The file."""

    valid: list[ValidCase]
    refused: list[RefusedCase]
    hello: HelloCases
    step: StepCases
    mode0: UnsampledCase


def is_wire(path: Path) -> bool:
    """Whether a file holds cases of the wire; False for what cannot be read, which others refuse better."""
    try:
        head = msgspec.json.decode(path.read_bytes())
    except (OSError, msgspec.MsgspecError):
        return False
    return isinstance(head, dict) and "valid" in head


def load(path: Path) -> WireCases:
    """Read a file of cases. CampaignError for a malformed one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=WireCases)
    except (OSError, msgspec.MsgspecError) as error:
        raise CampaignError(f"{path}: {error}; give a file like tests/vectors/wire.json") from None


def run(path: Path) -> FileResult:
    """Judge every case of a file."""
    try:
        found = list(_differences(load(path)))
    except (ValueError, OverflowError) as error:
        raise CampaignError(f"{path}: {error}") from None
    return FileResult(
        file=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        passed=sum(difference is None for difference in found),
        total=len(found),
        first_difference=next((difference for difference in found if difference), None),
    )


def _differences(cases: WireCases) -> Iterator[Difference | None]:
    """What each case differs in, or None."""
    for valid in cases.valid:
        yield _accepted(valid.name, valid.expected.asked(Mode.SAMPLED), valid.frame, valid.decode, valid.bytes)
    for refused in cases.refused:
        asked = refused.expected.asked(Mode.SAMPLED)
        yield _refused(refused.name, lambda f, a=asked: wire.decode(f, a), refused.frame)  # type: ignore[misc]  # bound
    yield from _hello(cases.hello)
    yield from _step(cases.step, bytes.fromhex(cases.mode0.expected.session), cases.mode0.expected.sequence)
    yield from _unsampled(cases.mode0)


def _accepted(name: str, asked: wire.Asked, frame: str, decoded: Decoded, size: int | None = None) -> Difference | None:
    content = bytes.fromhex(frame)
    try:
        reply = wire.decode(content, asked)
    except FrameError as error:
        return Difference(case=name, field="decision", expected="accepted", got=str(error))
    sampled = asked.mode is Mode.SAMPLED
    got = {
        "bytes": len(content),
        "status": reply.status.tolist(),
        "tokens": reply.tokens.tolist(),
        "mask": None if reply.mask is None else reply.mask.tolist(),
        "ids": None if reply.ids is None else reply.ids.tolist(),
        "tickets": reply.tickets.tolist() if sampled else None,
        "frame": wire.encode(reply, asked.round, asked.session, asked.sequence).hex(),
    }
    wanted = msgspec.structs.asdict(decoded) | {"bytes": size or len(content), "frame": frame}
    for field, value in got.items():
        if value != wanted[field]:
            return Difference(case=name, field=field, expected=wanted[field], got=value)
    return None


def _refused(name: str, judge: Callable[[bytes], object], frame: str) -> Difference | None:
    try:
        judge(bytes.fromhex(frame))
    except FrameError:
        return None
    return Difference(case=name, field="decision", expected=REFUSED, got="accepted")


def _equal(name: str, field: str, expected: object, got: object) -> Difference | None:
    return None if got == expected else Difference(case=name, field=field, expected=expected, got=got)


def _hello(cases: HelloCases) -> Iterator[Difference | None]:
    target, draft, markov = (bytes.fromhex(identity) for identity in cases.identities)
    mine = hello.Hello(mode=Mode.SAMPLED, target=target, draft=draft, markov=markov)
    session = bytes.fromhex(cases.accepted)[12:28]
    yield _equal("hello", "frame", cases.accepted, hello.encode(mine, session).hex())
    for case in [NamedFrame(name="hello", frame=cases.accepted), *cases.also_accepted]:
        try:
            hello.judge(bytes.fromhex(case.frame), mine, session)
        except FrameError as error:
            yield Difference(case=case.name, field="decision", expected="accepted", got=str(error))
        else:
            yield None
    for case in cases.refused:
        yield _refused(case.name, lambda frame: hello.judge(frame, mine, session), case.frame)


def _step(cases: StepCases, session: bytes, sequence: int) -> Iterator[Difference | None]:
    rows = tuple(
        step.Row(
            slot=row.slot,
            generation=row.generation,
            position=row.position,
            seed=int(row.seed),
            sampled=row.sampled,
        )
        for row in cases.rows
    )
    asked = step.Step(mode=Mode.SAMPLED, round=cases.round, depth=cases.depth, rows=rows)
    yield _equal("step", "frame", cases.frame, step.encode(asked, session, sequence).hex())

    def judge(frame: bytes) -> step.Step:
        return step.decode(frame, Mode.SAMPLED, cases.depth, session, sequence)

    yield _equal("step", "decoded", asked, judge(bytes.fromhex(cases.frame)))
    for case in cases.refused:
        yield _refused(case.name, judge, case.frame)


def _unsampled(case: UnsampledCase) -> Iterator[Difference | None]:
    """Mode 0, and that neither mode accepts the other's frames."""
    asked, content = case.expected.asked(Mode.UNSAMPLED), bytes.fromhex(case.step)
    decoded = step.decode(content, Mode.UNSAMPLED, asked.depth, asked.session, asked.sequence)
    yield _equal("mode 0 step", "frame", case.step, step.encode(decoded, asked.session, asked.sequence).hex())
    yield _accepted("mode 0", asked, case.frame, case.decode)
    sampled = case.expected.asked(Mode.SAMPLED)
    yield _refused("mode 0 in a sampled session", lambda frame: wire.decode(frame, sampled), case.frame)
    yield _refused(
        "mode 0 step in a sampled session",
        lambda frame: step.decode(frame, Mode.SAMPLED, asked.depth, asked.session, asked.sequence),
        case.step,
    )
    zero = bool(np.all([row.seed == 0 and not row.sampled for row in decoded.rows]))
    yield _equal("mode 0 step", "seeds and temperatures", True, zero)
