"""`pp3 estimate`: what the sampled path would cost and gain a round; arithmetic on its inputs, nothing measured."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import click
import msgspec

from pp3.harness.errors import CampaignError, Exit
from pp3.harness.estimate import law, wire
from pp3.harness.estimate.inputs import Input, Provenance, assumed, times
from pp3.harness.probe.plan import DEPTHS, Cache, Case, Part
from pp3.harness.terminal import Column, Fit, labelled, sentence, table
from pp3.targets import NAMES, build
from pp3.targets.policies import POLICIES, build_policy

NOT_MEASURED = (
    "the acceptance of a real pair of models: the laws above are those of toy targets, or assumed",
    "the draft model with sampling in place of argmax, and its Markov head",
    "the target's softmax into FP32 probabilities, which the verifier reads",
    "pair communication and host transfer: of the wire the bytes are counted, its time is not measured",
    "what of the added time would hide behind other work of a round",
    "batches in which some requests are greedy",
)
BITS_OF_A_BYTE = 8
DIGEST = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{48}\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One law: expected tokens of a round as point masses and with the proposal's law."""

    name: str
    point_mass: Fraction | None  # None where only an acceptance is assumed
    sampled: Fraction
    source: Input


def run_command(
    receipts: Sequence[Path],
    round_ms: Sequence[str],
    targets: Sequence[str],
    acceptances: Sequence[str],
    vocab: int,
    depth: int,
    batch: int,
    cache: str,
    link_gbit: str | None,
    as_json: bool,
) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 estimate --help`."""
    if not receipts:
        raise CampaignError("--receipt: times come from a receipt of pp3 probe; give one")
    if depth not in DEPTHS:
        raise CampaignError(f"--depth {depth}: it must be {' or '.join(map(str, DEPTHS))}")
    carried, plain = wire.sampled(batch, depth), wire.unsampled(batch, depth)
    wanted = [
        Case(part=Part.SELECTOR, vocab=vocab, depth=depth, batch=batch, cache=Cache(cache)),
        Case(part=Part.VERIFIER, vocab=vocab, depth=depth, batch=batch),
    ]
    timed = times(receipts, wanted)
    rounds = [assumed("a round without the sampled path", text, "ms", "--round-ms") for text in round_ms]
    link = assumed("the link", link_gbit, "Gbit/s", "--link-gbit") if link_gbit is not None else None
    lines = [_of_target(name, depth) for name in targets or (() if acceptances else NAMES)]
    lines += [_of_acceptance(text, depth) for text in acceptances]
    more = carried.total - plain.total
    counted = [
        _exact("bytes of a round, sampled", Fraction(carried.total), "bytes", "semantics, section 4"),
        _exact("bytes of a round, tokens alone", Fraction(plain.total), "bytes", "semantics, section 4"),
    ]
    added = sum((pair[0].value for pair in timed.values()), Fraction(0))
    added_most = sum((pair[1].value for pair in timed.values()), Fraction(0))
    if link is not None:  # Gbit/s are bits a nanosecond
        on_link = Fraction(more * BITS_OF_A_BYTE) / link.value / 1000
        added, added_most = added + on_link, added_most + on_link
    inputs = [one for pair in timed.values() for one in pair] + counted + rounds + ([link] if link else [])
    inputs += [line.source for line in lines]
    size = f"depth {depth}, batch {batch}, vocabulary {vocab:,}, {cache} logits"
    said = (
        f"ESTIMATE: the sampled path adds {_us(added)} us a round at the median ({_us(added_most)} us at the 95th "
        f"percentiles) and {more:,} bytes, at {size}. No speedup was measured and none is claimed."
    )
    result = {
        "addedUs": str(added),
        "addedUsP95": str(added_most),
        "addedBytes": more,
        "inputs": [one.plain() for one in inputs],
        "notMeasured": list(NOT_MEASURED),
        "rows": [_plain(line, rounds, added) for line in lines],
        "sentence": said,
    }
    if as_json:
        click.echo(msgspec.json.encode(result).decode())
        return Exit.OK
    for text in [*sentence(said), "", *_inputs_table(inputs), "", *_rows_table(lines, rounds, added), ""]:
        click.echo(text)
    for number, claim in enumerate(NOT_MEASURED):
        for text in labelled("not measured" if not number else "", claim):
            click.echo(text)
    return Exit.OK


def _exact(name: str, value: Fraction, unit: str, source: str) -> Input:
    return Input(name=name, value=value, unit=unit, provenance=Provenance.EXACT, source=source)


def _of_target(name: str, depth: int) -> Line:
    """The exact law of a toy target, ours or of the bridge."""
    if name not in (*NAMES, *POLICIES):
        raise CampaignError(f"--target {name}: choose from {', '.join(dict.fromkeys((*NAMES, *POLICIES)))}")
    target = build(name) if name in NAMES else build_policy(name)
    emitted = law.sampled(target, depth)
    source = _exact(f"law of {name}", emitted, "tokens", f"toy target, sha256 {target.digest()}")
    return Line(name=name, point_mass=law.point_mass(target, depth), sampled=emitted, source=source)


def _of_acceptance(text: str, depth: int) -> Line:
    """One probability for every draft, which the caller assumes."""
    given = assumed("acceptance of a draft", text, "", "--acceptance", Fraction(1))
    return Line(name=f"acceptance {text}", point_mass=None, sampled=law.assumed(given.value, depth), source=given)


def _plain(line: Line, rounds: Sequence[Input], added: Fraction) -> dict[str, object]:
    """For --json."""
    return {
        "law": line.name,
        "pointMassTokens": None if line.point_mass is None else str(line.point_mass),
        "rounds": [
            {
                "breakEvenTokens": None if line.point_mass is None else str(_break_even(line.point_mass, one, added)),
                "roundMs": str(one.value),
                "sampledTokensPerMs": str(line.sampled / (one.value + added / 1000)),
            }
            for one in rounds
        ],
        "sampledTokens": str(line.sampled),
    }


def _break_even(point_mass: Fraction, one: Input, added: Fraction) -> Fraction:
    """Tokens that a round of the sampled path must emit to be as fast as one of point masses."""
    return point_mass * (one.value + added / 1000) / one.value


def _inputs_table(inputs: Sequence[Input]) -> list[str]:
    columns = [
        Column(head="input", fit=Fit.FOLD),
        Column(head="value", right=True),
        Column(head="unit"),
        Column(head="is"),
        Column(head="from", fit=Fit.FOLD),
    ]
    return table(
        columns, [[one.name, _number(one.value), one.unit, one.provenance, _short(one.source)] for one in inputs]
    )


def _rows_table(lines: Sequence[Line], rounds: Sequence[Input], added: Fraction) -> list[str]:
    """Expected tokens; for each round time, what the sampled path must emit to break even, and what it would."""
    heads = ["point mass", "sampled", *(head for one in rounds for head in (f"even at {_number(one.value)} ms",))]
    columns = [Column(head="tokens a round", fit=Fit.FOLD), *(Column(head=head, right=True) for head in heads)]
    rows = []
    for line in lines:
        base = line.point_mass
        even = ["-" if base is None else _number(_break_even(base, one, added)) for one in rounds]
        rows.append([line.name, "-" if base is None else _number(base), _number(line.sampled), *even])
    return table(columns, rows)


def _short(source: str) -> str:
    """A digest by its first digits; --json has it whole."""
    return DIGEST.sub(r"\1", source)


def _number(value: Fraction) -> str:
    return f"{float(value):,.4g}" if value < 10_000 else f"{float(value):,.0f}"


def _us(value: Fraction) -> str:
    return f"{float(value):.3g}"
