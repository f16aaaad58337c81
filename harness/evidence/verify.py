"""Verify a receipt without trusting who made it: no torch, no triton, no GPU.

Steps, one line each: the bytes, the name, the shape, the plan and the seed, the laws rebuilt from our own targets, the
counts and every statistic recomputed, the verdict, the non-claims, and the sources in a tree if one is given. A step is
ok, FAIL, or skip with its reason; a skip is never ok.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pp3.harness import canonical
from pp3.harness.campaign import Campaign, check_sampler, of_plan, our_limits, pair_shards, plan_sha256
from pp3.harness.cells import Event
from pp3.harness.errors import PP3Error, VerificationError
from pp3.harness.evidence import provenance
from pp3.harness.evidence.receipt import NON_CLAIMS, stamp
from pp3.harness.evidence.shapes import check_shape
from pp3.harness.exact import oracle, suite
from pp3.harness.seeds import RULE, Seed
from pp3.harness.tally import BREACHES
from pp3.harness.verdict import Judgement, all_cells, conclude

COUNTS, STATISTICS = "recompute counts", "recompute statistics"
TOLERANCE = 1e-5  # of numbers stored to six digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a verification."""

    name: str
    outcome: str  # ok, FAIL or skip
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of a receipt."""

    sha256: str
    verdict: str
    steps: list[Step]
    current: str  # yes, no or unchecked

    @property
    def ok(self) -> bool:
        """Every step that ran holds; stale sources are told apart by `current`."""
        return all(step.outcome != "FAIL" for step in self.steps)

    @property
    def sentence(self) -> str:
        """The last line."""
        if self.ok:
            return (
                f"VERIFIED verdict={self.verdict} sha256={self.sha256} assurance=self-attested current={self.current}"
            )
        failed = next(step for step in self.steps if step.outcome == "FAIL")
        return f"NOT VERIFIED at {failed.name}: {failed.detail}"


def verify(path: Path, content: bytes, source: Path | None = None) -> Verified:
    """Run every step on the bytes of a receipt; stops at the first that fails."""
    steps: list[Step] = []
    digest = hashlib.sha256(content).hexdigest()
    verdict, current = "unknown", "unchecked"
    try:
        for step in _steps(path, content, digest, source):
            steps.append(step)
            if step.name == "verdict":
                verdict = step.detail
            if step.name == "sources" and step.outcome == "ok":
                current = "yes" if step.detail.startswith("all") else "no"
    except PP3Error as error:
        name, _, detail = str(error).partition(": ")
        steps.append(Step(name=name, outcome="FAIL", detail=detail))
    return Verified(sha256=digest, verdict=verdict, steps=steps, current=current)


def _steps(path: Path, content: bytes, digest: str, source: Path | None) -> Iterator[Step]:
    statement = _at("bytes", canonical.decode, content)
    yield ok("bytes", f"canonical, {len(content):,} bytes")
    if path.stem.rpartition("-")[2] != digest:
        raise VerificationError(f"name: the bytes hash to {digest}, the name says {path.stem.rpartition('-')[2]}")
    yield ok("name", f"sha256 {digest}")
    _at("shape", check_shape, statement)
    predicate = statement["predicate"]
    if not path.name.startswith(f"{stamp(predicate['run'].get('startedUtc', ''))}-"):
        raise VerificationError(
            f"shape: started {predicate['run'].get('startedUtc')!r}, the name says {path.name[:16]}"
        )
    yield ok("shape", "in-toto statement, urn:pp3:receipt:v1")
    recompute = _qualify if predicate["kind"] == "qualify" else _exact
    yield from recompute(predicate)
    if predicate["nonClaims"] != list(NON_CLAIMS):
        raise VerificationError("non-claims: not the fixed ones; nothing may be left out")
    yield ok("non-claims", f"{len(NON_CLAIMS)} stated")
    if source is None:
        yield Step(name="sources", outcome="skip", detail="no --source tree given")
        return
    stale = provenance.stale(predicate["kind"], statement["subject"], source)
    total = len(statement["subject"])
    yield ok("sources", f"{len(stale)} of {total} differ: {stale[0]}" if stale else f"all {total} equal the tree")


def ok(name: str, detail: str) -> Step:
    """A step that holds."""
    return Step(name=name, outcome="ok", detail=detail)


def _exact(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of exact results: every stored integer against the one it must be."""
    if predicate["profile"] != "exact" or predicate["tool"].get("name") != "pp3":
        raise VerificationError(f"shape: profile {predicate['profile']!r}, tool {predicate['tool']}; want exact, pp3")
    who = (predicate["sampler"], predicate["kernels"])
    if predicate["kind"] == "oracle":
        concluded = _at("recompute policies", oracle.conclude, predicate["policies"], *who)
        yield ok("recompute policies", f"{len(predicate['policies'])} bridged again from the stored tickets")
    else:
        rows = predicate["enumerations"]
        concluded = _at("recompute enumerations", suite.conclude, rows, *who)
        values = sum(len(row["values"]) for row in rows)
        yield ok("recompute enumerations", f"{values:,} entries of {len(rows)} enumerations")
    _same_verdict(concluded, predicate)
    yield ok("verdict", concluded.verdict.value)


def _qualify(predicate: dict[str, Any]) -> Iterator[Step]:
    """The steps of a campaign."""
    if predicate["seed"]["rule"] != RULE:
        raise VerificationError(f"plan: the seed rule must read {RULE!r}")
    campaign = _plan(predicate)
    yield ok("plan", f"digest and seed of counter {predicate['seed']['counter']} recomputed")
    _at("laws", _laws, campaign, predicate)
    yield ok("laws", f"{len(campaign.targets)} targets rebuilt from their names and definitions")
    counts = _at(COUNTS, _counts, campaign, predicate)
    yield ok(COUNTS, f"{len(counts):,} cells tile {campaign.spec.requests * len(campaign.targets):,} requests")
    judgement = _at(STATISTICS, _conclude, campaign, counts, predicate)
    _compare("test", [test.plain() for test in judgement.tests], predicate["tests"])
    _compare("seed family", judgement.seed_family, predicate["seedFamily"])
    _compare("sees", [judgement.sees], [predicate["sees"]])
    yield ok(STATISTICS, f"{len(judgement.tests)} checks")
    _same_verdict(judgement, predicate)
    yield ok("verdict", judgement.verdict.value)


def _same_verdict(mine: Judgement | suite.Conclusion | oracle.Conclusion, predicate: dict[str, Any]) -> None:
    for name, recomputed in (("verdict", mine.verdict.value), ("reasons", mine.reasons), ("sentence", mine.sentence)):
        if recomputed != predicate[name]:
            raise VerificationError(
                f"verdict: {name} recomputes to {recomputed!r}, the receipt says {predicate[name]!r}"
            )


def _at(step: str, function: Any, *arguments: Any) -> Any:
    """Name the step in the error of a function that raises, for values no honest receipt holds too."""
    try:
        return function(*arguments)
    except PP3Error as error:
        said = str(error)
        raise VerificationError(said if said.startswith(f"{step}: ") else f"{step}: {said}") from None
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise VerificationError(f"{step}: {type(error).__name__}: {error}") from None


def _plan(predicate: dict[str, Any]) -> Campaign:
    campaign: Campaign = _at("plan", of_plan, predicate["plan"])
    if canonical.sha256(predicate["plan"]) != predicate["planSha256"]:
        raise VerificationError(f"plan: hashes to {canonical.sha256(predicate['plan'])}, not {predicate['planSha256']}")
    names = [target["name"] for target in predicate["plan"]["targets"]]
    laws = {target.name: target.digest() for target in campaign.targets}
    claimed = {target["name"]: target.get("lawSha256") for target in predicate["plan"]["targets"]}
    if laws == claimed and plan_sha256(campaign) != predicate["planSha256"]:
        raise VerificationError(f"plan: its values rebuild to another plan for {', '.join(names)}")
    seed = _at("plan", Seed.of, predicate["planSha256"], predicate["seed"]["counter"])
    if seed.value.hex() != predicate["seed"]["sha256"]:
        raise VerificationError(
            f"plan: the seed of this plan and counter is {seed.value.hex()}, not {predicate['seed']['sha256']}"
        )
    return campaign


def _laws(campaign: Campaign, predicate: dict[str, Any]) -> None:
    """Every law is ours by digest, within what the sampler declares."""
    for target, claimed in zip(campaign.targets, predicate["plan"]["targets"], strict=True):
        if target.digest() != claimed.get("lawSha256"):
            raise VerificationError(f"laws: {target.name} is {claimed.get('lawSha256')} there, {target.digest()} here")
    check_sampler(campaign, our_limits())


def _counts(campaign: Campaign, predicate: dict[str, Any]) -> dict[tuple[str, int], list[int]]:
    """Every cell of the plan exactly once, non-negative, adding up to the requests."""
    found = {(cell["id"], cell["batch"]): cell["counts"] for cell in predicate["cells"]}
    if len(found) != len(predicate["cells"]):
        raise VerificationError(f"{COUNTS}: a cell is there twice")
    cells = all_cells(campaign)
    expected = {(cell.id, batch): len(cell.atoms) + 1 for cell in cells for batch in campaign.spec.batch_sizes}
    for key in expected.keys() ^ found.keys():
        raise VerificationError(
            f"{COUNTS}: cell {key[0]} at batch {key[1]} is {'missing' if key in expected else 'foreign'}"
        )
    for key, length in expected.items():
        if len(found[key]) != length or min(found[key]) < 0:
            raise VerificationError(f"{COUNTS}: {key[0]} at batch {key[1]} needs {length} counts of 0 or more")
    if set(predicate["breaches"]) != set(BREACHES):
        raise VerificationError(f"{COUNTS}: breaches must name {', '.join(BREACHES)}")
    atoms = {cell.id: set(cell.atoms.tolist()) for cell in cells}
    strays: dict[tuple[str, int], int] = {}
    for stray in predicate["strays"]:
        key = (stray["cell"], stray["batch"])
        if key not in found or stray["outcome"] in atoms[stray["cell"]]:
            raise VerificationError(f"{COUNTS}: stray {stray['outcome']} of {key[0]} at batch {key[1]} is none")
        strays[key] = strays.get(key, 0) + stray["count"]
    shards = [(target.name, depth, pairs) for target, depth, pairs in pair_shards(campaign)]
    if [(row["target"], row["depth"], row["pairs"]) for row in predicate["paired"]] != shards:
        raise VerificationError(f"{COUNTS}: the paired shards are not those of {campaign.spec.paired} pairs")
    if any(row["passed"] > row["total"] for row in predicate["kernels"]["conform"]):
        raise VerificationError(f"{COUNTS}: more known answers passed than there are")
    for key, counts in found.items():
        if counts[-1] != strays.get(key, 0):
            raise VerificationError(
                f"{COUNTS}: {key[0]} has {counts[-1]} forbidden outcomes, {strays.get(key, 0)} are named"
            )
    if not any(predicate["breaches"].values()):
        _tile(campaign, found)
    return found


def _tile(campaign: Campaign, found: dict[tuple[str, int], list[int]]) -> None:
    """Each request proposes at every position, emits at every position it reaches, and has one length."""
    by_group: dict[tuple[str, int], list[Any]] = {}
    for cell in all_cells(campaign):
        by_group.setdefault((cell.target, cell.depth), []).append(cell)
    for (target, depth), cells in by_group.items():
        for batch in campaign.spec.batch_sizes:
            requests = campaign.requests_of(depth, batch)
            totals: dict[tuple[Event, int], int] = {}
            reached = [0] * (depth + 1)
            outside = 0
            for cell in cells:
                counts = found[cell.id, batch]
                key = (cell.event, cell.position)
                totals[key] = totals.get(key, 0) + sum(counts)
                if cell.event is Event.LENGTH:
                    outside += counts[-1]
                    for length, count in zip(cell.atoms.tolist(), counts, strict=False):
                        reached = [n + count * (position <= length) for position, n in enumerate(reached)]
            where = f"{target}/depth-{depth} at batch {batch}"
            lengths = totals.get((Event.LENGTH, -1), 0)
            checks = [("lengths", lengths, requests)]
            checks += [
                (f"proposals at position {j}", totals.get((Event.PROPOSAL, j), 0), requests) for j in range(depth)
            ]
            if not outside:
                for j in range(depth + 1):
                    kinds = (Event.BONUS,) if j == depth else (Event.TOKEN, Event.FULL_TARGET)
                    emitted = sum(totals.get((kind, j), 0) for kind in kinds)
                    checks.append((f"tokens at position {j}", emitted, reached[j]))
                    if (Event.RESIDUAL, j) in totals:
                        stopped = reached[j] - reached[j + 1] - totals.get((Event.FULL_TARGET, j), 0)
                        checks.append((f"residual tokens at position {j}", totals[Event.RESIDUAL, j], stopped))
            for what, got, wanted in checks:
                if got != wanted:
                    raise VerificationError(f"{COUNTS}: {where}: {what} add up to {got}, must be {wanted}")


def _conclude(campaign: Campaign, counts: dict[tuple[str, int], list[int]], predicate: dict[str, Any]) -> Judgement:
    return conclude(
        campaign, counts, predicate["breaches"], predicate["paired"], predicate["kernels"], predicate["sampler"]
    )


def _compare(what: str, mine: list[dict[str, Any]], said: list[dict[str, Any]]) -> None:
    """Field by field: the same rows, each with the same fields and equal values."""
    if len(mine) != len(said):
        raise VerificationError(f"{STATISTICS}: {len(said)} {what} rows, the plan has {len(mine)}")
    for one, other in zip(mine, said, strict=True):
        name = one.get("id", one.get("target", what))
        for field in one.keys() | other.keys():
            if field not in one or not _equal(one[field], other.get(field)):
                recomputed, claimed = one.get(field, "nothing"), other.get(field, "nothing")
                raise VerificationError(
                    f"{STATISTICS}: {name}: {field} comes to {recomputed}, the receipt says {claimed}"
                )


def _equal(mine: Any, said: Any) -> bool:
    """Equal, or two numbers written to six digits that are equal within their last."""
    if mine == said:
        return type(mine) is type(said)
    try:
        one, other = float(mine), float(said)
    except (TypeError, ValueError):
        return False
    return isinstance(mine, str) and isinstance(said, str) and abs(one - other) <= TOLERANCE * abs(one)
