"""Tampering, sealed anew: whatever of a receipt `leaves` calls derived cannot be changed, by leaf or by structure.

Every change is written canonically and under its new digest, as a forger would, so that neither the bytes nor the name
give it away. The suites of test_verify.py and test_trial_receipt.py name a step for each change; here is every leaf.
"""

import copy
import hashlib
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

from pp3.harness import backends, canonical, cli
from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.calibrate import far, judge
from pp3.harness.calibrate.found import battery_of
from pp3.harness.campaign import our_limits, plan_sha256
from pp3.harness.design import Check
from pp3.harness.errors import Exit, VerificationError
from pp3.harness.evidence import calibration, kernels, leaves, provenance, receipt, rows, survey
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.evidence.leaves import Held
from pp3.harness.evidence.verify import Verified, check_name, verify
from pp3.harness.exact import oracle, suite
from pp3.harness.kernel_evidence import known_answers
from pp3.harness.run import Measured, _campaign
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed
from pp3.harness.transport import command as over_wire
from pp3.harness.transport import wire_plan
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import ReferenceStage
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run
from pp3.harness.verdict import conclude

ROOT = Path(__file__).resolve().parents[1]
STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COUNTER = 7
KINDS = tuple(leaves.RULES)
EXAMPLES, SOAK = 500, 10_000
WITHIN = 1e-5  # of a number stored to six digits, relatively: docs/receipts.md
MOST = {"oracle": 1, "calibration": 4}  # values that a leaf is given, where a receipt takes longer to verify
COMMANDS = 24  # flipped bits that the whole command is given
Statement = dict[str, Any]
Keys = tuple[str | int, ...]
Places = dict[str, list[Keys]]
RIGHT = cache(suite.right)
SOURCES = cache(provenance.sources)
ANSWERS = cache(kernels.expected_answers)
KEPT: dict[tuple[Any, ...], Any] = {}


def _kept(of: Any) -> Any:
    """A function of a calibration's campaigns and checks, whose results are kept."""

    def key(value: Any) -> Any:
        if isinstance(value, campaigns.Campaign):
            return plan_sha256(value)
        return (value.id, value.alpha) if isinstance(value, Check) else id(value)

    def kept(*given: Any) -> Any:
        found = (of.__name__, *map(key, given))
        if found not in KEPT:
            KEPT[found] = of(*given), given  # which keeps them alive, so that no other has their id
        return KEPT[found][0]

    return kept


@pytest.fixture(autouse=True, scope="module")
def _once() -> Iterator[None]:
    """What must be observed, the sources and the known answers, computed once: they do not change meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite, "right", RIGHT)
        patch.setattr(provenance, "sources", SOURCES)
        patch.setattr(kernels, "expected_answers", ANSWERS)
        for module in (judge, calibration):
            patch.setattr(module, "battery_of", _kept(battery_of))
        patch.setattr(judge, "claimed", _kept(judge.claimed))
        for name in ("checks_of", "bounded"):
            patch.setattr(far, name, _kept(getattr(far, name)))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the receipts lie."""
    return tmp_path_factory.mktemp("receipts")


@pytest.fixture(scope="module")
def statements(measure: Any, probed: Any, calibrated: Any, folder: Path) -> dict[str, Statement]:
    """A small real receipt of each kind; copy before changing."""
    found = {"qualify": _qualify(measure), "trial": _trial(), "oracle": _exact("oracle")}
    found["exhaustive"] = _exact("exhaustive")
    found["probe"] = probed.statement()
    found["calibration"] = calibrated.statement()
    found["wire"] = _wire(measure)
    found["engine"] = _engine(folder)
    found["survey"] = _survey(found["trial"], receipt.write(found["trial"], folder))
    return {kind: canonical.decode(canonical.encode(one)) for kind, one in found.items()}


def _qualify(measure: Any) -> Statement:
    campaign = campaigns.of_document(
        {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
    )
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    measured = measure(campaign, drawn)
    who = receipt.sampler_of(measured.sampler, Backend(measured.sampler.backend))
    parts = (measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels)
    judged = conclude(campaign, *parts, who)
    return receipt.build(campaign, drawn, COUNTER, "given", STARTED, measured, judged)


def _wire(measure: Any) -> Statement:
    campaign = wire_plan.over_wire(
        campaigns.of_document(
            {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
        ),
        Place.THREAD,
    )
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    beside, sampler = measure(campaign, drawn), PathSampler(ReferenceStage(), campaign.place)
    measured = Measured(sampler=beside.sampler, kernels=beside.kernels, timings=beside.timings)
    _campaign(campaign, drawn, sampler, measured, lambda *_: None)
    sampler.close()
    path = sampler.journey.plain()
    judged = over_wire.judge(campaign, measured, path)
    return over_wire.build(campaign, drawn, COUNTER, "given", STARTED, measured, path, judged)


def _engine(folder: Path) -> Statement:
    for role, option in (("target", []), ("draft", ["--draft"])):
        assert cli.run(["checkpoint", "chain-64", *option, "--out", str(folder / role)]) == Exit.OK
    served = ["--checkpoint", str(folder / "target"), "--draft-checkpoint", str(folder / "draft")]
    out = folder / "engine"
    asked = ["--tokens", "20000", "--counter", str(COUNTER), "--out", str(out)]
    assert cli.run(["qualify", "--engine", "reference", *served, *asked]) in (Exit.OK, Exit.INCONCLUSIVE)
    return receipt.read(next(out.glob("*.json")))[1]


def _trial() -> Statement:
    sampler, threads = Multinomial(), torch.get_num_threads()
    torch.set_num_threads(1)
    spec = TrialSpec(sampler="multinomial", targets=["rows-of-4", "rows-of-8"], requests=2000)
    trial = make(spec, sampler.describe(), "test")
    measured = run(trial, sampler, Seed.of(trial.plan_sha256, COUNTER), "cpu", lambda *_: None)
    torch.set_num_threads(threads)
    one = Found(trial=trial, device=identity("cpu"), measured=measured, sources=Sources([["a.py", "0" * 64]], {}))
    return trial_receipt.build(one, COUNTER, "given", STARTED, trial_receipt.judge(one))


def _exact(kind: str) -> Statement:
    who = receipt.sampler_of(our_limits(), Backend.REFERENCE)
    named = backends.identity(Backend.REFERENCE)
    kernels = {"bits": [], "conform": known_answers(Backend.REFERENCE), "identity": named}
    if kind == "oracle":
        seen = oracle.observe(Backend.REFERENCE, lambda *_: None)
        return receipt.build_exact(kind, STARTED, who, kernels, seen, oracle.conclude(seen, who, kernels))
    found = [RIGHT(which, False).plain() for which in suite.IDS]
    return receipt.build_exact(kind, STARTED, who, kernels, found, suite.conclude(found, who, kernels))


def _survey(trial: Statement, file: Path) -> Statement:
    p = trial["predicate"]
    row = {key: p[key] for key in survey.COPIED} | {"version": p["sampler"]["version"], "name": "multinomial"}
    row |= {"about": "a control", "receipt": file.name, "requests": survey.requests_of(p)}
    return survey.build(STARTED, [row], {"another": "not installed"})


def sealed(statement: Statement, folder: Path) -> Verified:
    """Verify a statement as a forger would write it into a folder: canonical, under its own digest."""
    content = canonical.encode(statement)
    ran = statement["predicate"].get("run") if isinstance(statement.get("predicate"), dict) else None
    moment = receipt.stamp(str(ran.get("startedUtc"))) if isinstance(ran, dict) else "unknown"
    return verify(folder / f"{moment}-{hashlib.sha256(content).hexdigest()}.json", content)


def reseal_plan(statement: Statement) -> None:
    """Make the plan's digest and the seed follow from a changed plan."""
    p = statement["predicate"]
    p["planSha256"] = canonical.sha256(p["plan"])
    p["seed"]["sha256"] = Seed.of(p["planSha256"], p["seed"]["counter"]).value.hex()


def places(statement: Statement) -> Places:
    """The leaves of a statement by their path."""
    found: Places = {}
    for path, keys in leaves.leaves(statement):
        found.setdefault(path, []).append(keys)
    return found


def value_at(statement: Statement, keys: Keys) -> Any:
    """What stands at a place."""
    place: Any = statement
    for key in keys:
        place = place[key]
    return place


def put(statement: Statement, keys: Keys, value: Any) -> None:
    """Set what stands at a place."""
    value_at(statement, keys[:-1])[keys[-1]] = value


def near(old: Any, new: Any) -> bool:
    """Whether two leaves are one number to the digits that are compared, spelled as a receipt spells it."""
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    try:
        one, other = float(old), float(new)
    except ValueError:
        return False
    return f"{other:.6g}" == new and abs(one - other) <= WITHIN * abs(one)


def others(old: Any) -> list[Any]:
    """Values of the same and of another type, near and far."""
    if isinstance(old, bool):
        return [not old, int(old), str(old)]
    if isinstance(old, int):
        return [old + 1, old - 1, 0 if old else 2, -old - 1, 2**53 - 1, str(old), bool(old), None]
    if isinstance(old, str):
        swapped = old[:-1] + ("0" if old[-1:] != "0" else "1")
        spelled = [f"{old}0", f" {old}", f"+{old}", f"{old}e0"]
        return [
            swapped,
            old[:-1],
            f"{old}x",
            old.swapcase(),
            "",
            "PASS",
            "0",
            "1e-300",
            "nan",
            "inf",
            *spelled,
            0,
            None,
        ]
    return [None, 0, "", "x", [0], ["x"], {"a": 1}, {"a": "1"}]


def test_there_is_a_receipt_of_every_kind_and_it_verifies(statements: dict[str, Statement], folder: Path) -> None:
    """Or nothing below could be refused for its change."""
    assert set(statements) == set(KINDS)
    for kind, statement in statements.items():
        found = sealed(statement, folder)
        assert found.ok, (kind, found.sentence)


@pytest.mark.parametrize("kind", KINDS)
def test_no_derived_leaf_can_be_changed(kind: str, statements: dict[str, Statement], folder: Path) -> None:
    """Every path, at its last place, to every other value; where a receipt takes longer to verify, to MOST."""
    statement = copy.deepcopy(statements[kind])
    passed, met = [], 0
    for path, where in places(statement).items():
        if leaves.rule_of(kind, path).held is not Held.DERIVED:
            continue
        keys = where[-1]
        old = value_at(statement, keys)
        changed = [new for new in others(old) if differ(new, old) and not near(old, new)]
        for new in changed[: MOST.get(kind)]:
            put(statement, keys, new)
            met += 1
            passed += [f"{path}: {old!r} -> {new!r}"] if sealed(statement, folder).ok else []
        put(statement, keys, old)
    assert passed == []
    assert met >= 24


OUTSIDE = ("subject[].name", "subject[].digest.sha256", "predicate.run.startedUtc", "predicate.sampler.files")


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_changed_alone_is_listed(kind: str, statements: dict[str, Statement], folder: Path) -> None:
    """Attested, or bound by what lies outside: the sources, the sampler's files, the clock in the name. Some can be."""
    statement = copy.deepcopy(statements[kind])
    passed = set()
    for path, where in places(statement).items():
        rule, keys = leaves.rule_of(kind, path), where[-1]
        if rule.held is Held.DERIVED:
            continue
        old = value_at(statement, keys)
        changed = [new for new in others(old) if differ(new, old)]
        for new in changed[: MOST.get(kind)]:
            put(statement, keys, new)
            passed |= {rule} if sealed(statement, folder).ok else set()
        put(statement, keys, old)
    assert [rule.path for rule in passed if rule.held is Held.BOUND and rule.path not in OUTSIDE] == []
    assert {"predicate.environment", "predicate.run.finishedUtc"} <= {rule.path for rule in passed}


@dataclass(frozen=True)
class Level:
    """As much of a test as the budget looks at."""

    id: str
    alpha: float


SHARES = {"law": 0.6, "rare": 0.4}
OVERSPENT: dict[str, tuple[dict[str, float], list[float], list[str], str]] = {
    "weights of 0.9": ({"law": 0.5, "rare": 0.4}, [0.006], ["0.006"], "the weights sum to 0.9"),
    "weights of 1.1": ({"law": 0.7, "rare": 0.4}, [0.006], ["0.006"], "the weights sum to 1.1"),
    "another level than planned": (SHARES, [0.006, 0.004], ["0.005", "0.004"], "a has the level 0.005"),
    "a level of no number": (SHARES, [0.006], ["nan"], "has the level nan"),
    "levels beyond alpha": (SHARES, [0.006, 0.006], ["0.006", "0.006"], "add up to 0.012, the family alpha is 0.01"),
}


@pytest.mark.parametrize(("shares", "planned", "said", "reason"), OVERSPENT.values(), ids=OVERSPENT)
def test_the_error_budget_is_held(shares: dict[str, float], planned: list[float], said: list[str], reason: str) -> None:
    """A receipt's plan is refused for its weights before; here the step alone."""
    tests = [Level(name, alpha) for name, alpha in zip("ab", planned, strict=False)]
    with pytest.raises(VerificationError, match=f"^error budget: .*({reason})"):
        rows.budget(0.01, shares, tests, [{"alpha": one} for one in said])
    spent = rows.budget(0.01, SHARES, [Level("a", 0.006), Level("b", 0.004)], [{"alpha": "0.006"}, {"alpha": "0.004"}])
    assert spent == "levels of 2 checks add up to 0.01 of 0.01; weights sum to 1"


SPELLED = {
    "the same": ("0.123456", True),
    "one unit of the sixth digit": ("0.123457", True),
    "two units": ("0.123458", False),
    "a seventh digit": ("0.1234561", False),
    "twelve digits": ("0.123456000001", False),
    "another spelling": ("1.23456e-1", False),
    "a zero more": ("0.1234560", False),
    "a space": (" 0.123456", False),
    "a number": (0, False),
    "nothing": (None, False),
}


@pytest.mark.parametrize(("said", "same"), SPELLED.values(), ids=SPELLED)
def test_a_double_is_held_to_its_sixth_digit(said: Any, same: bool) -> None:
    """Relative 1e-5: at 0.123456 that is 1.2 units of the sixth digit."""
    assert rows.equal("0.123456", said) == same


def differ(one: Any, other: Any) -> bool:
    """As JSON: True and 1 are equal in Python."""
    return canonical.encode([one]) != canonical.encode([other])


SEALED = (("predicate", "planSha256"), ("predicate", "seed", "sha256"))
LISTS = ("delete", "repeat", "exchange", "add")
TOUCHED = {  # lists and maps whose members, or their order, follow from other leaves
    "qualify": ("cells", "tests", "deviations", "seedFamily", "sees", "nonClaims", "reasons", "paired", "kernels"),
    "trial": ("cells", "tests", "deviations", "effects", "nonClaims", "reasons"),
}


def restructure(statement: Statement, keys: Keys, way: str, rng: random.Random) -> None:
    """Delete, repeat or exchange members of a list or map, or add a foreign one."""
    place = value_at(statement, keys)
    if isinstance(place, dict):
        name = rng.choice(sorted(place))
        if way == "delete":
            del place[name]
        elif way == "exchange":
            other = rng.choice(sorted(place))
            place[name], place[other] = place[other], place[name]
        else:
            place[f"{name}-more" if way == "repeat" else "unknown"] = copy.deepcopy(place[name])
    else:
        at, other = rng.randrange(len(place)), rng.randrange(len(place))
        if way == "delete":
            del place[at]
        elif way == "exchange":
            place[at], place[other] = place[other], place[at]
        else:
            place.insert(other, copy.deepcopy(place[at]) if way == "repeat" else rng.choice([None, 0, "", {}, []]))


def containers(statement: Statement, kind: str) -> list[Keys]:
    """Every list and map within those whose members follow."""
    found: list[Keys] = []

    def visit(value: Any, keys: Keys) -> None:
        if isinstance(value, (dict, list)) and value:
            found.append(keys)
            for key, item in value.items() if isinstance(value, dict) else enumerate(value):
                visit(item, (*keys, key))

    for name in TOUCHED[kind]:
        visit(statement["predicate"][name], ("predicate", name))
    return found


def derived_of(kind: str, statement: Statement) -> dict[Keys, Any]:
    """Every derived leaf of a statement."""
    return {
        keys: value_at(statement, keys)
        for path, where in places(statement).items()
        for keys in where
        if leaves.rule_of(kind, path).held is Held.DERIVED
    }


def is_derived(kind: str, path: str) -> bool:
    """Whether a leaf follows; one that a change has made may have no rule."""
    try:
        return leaves.rule_of(kind, path).held is Held.DERIVED
    except KeyError:
        return False


def mutate(kind: str, statement: Statement, chosen: int) -> str:
    """One structured change, or two, drawn from an integer; what was done."""
    rng, done = random.Random(chosen), []
    for _ in range(rng.choice([1, 1, 1, 2])):
        if rng.random() < 0.3:
            keys, way = rng.choice(containers(statement, kind)), rng.choice(LISTS)
            restructure(statement, keys, way, rng)
            done.append(f"{way} in {keys}")
        else:
            by_path = places(statement)
            follow = [path for path in sorted(by_path) if is_derived(kind, path)]
            keys = rng.choice(by_path[rng.choice(follow if rng.random() < 0.7 else sorted(by_path))])
            old = value_at(statement, keys)
            put(statement, keys, rng.choice(others(old) if rng.random() < 0.8 else others(None)))
            done.append(f"{keys} {old!r} -> {value_at(statement, keys)!r}")
    if rng.random() < 0.3:
        try:
            reseal_plan(statement)
            done.append("sealed anew")
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            done.append("no seal fits")
    return "; ".join(done)


def hold(kind: str, original: Statement, chosen: int, folder: Path) -> bool:
    """Mutate and verify; whether a derived leaf was changed, and then it is refused."""
    statement = copy.deepcopy(original)
    said = mutate(kind, statement, chosen)
    try:
        after = derived_of(kind, statement)
    except (KeyError, TypeError):  # a leaf that no kind has
        after = {}
    before = derived_of(kind, original)
    if said.endswith("sealed anew"):  # another plan, sealed: what the seal sets is right again
        before, after = ({k: v for k, v in one.items() if k not in SEALED} for one in (before, after))
    same = before.keys() == after.keys() and all(
        not differ(after[keys], value) or near(value, after[keys]) for keys, value in before.items()
    )
    if same:
        return False
    found = sealed(statement, folder)
    assert not found.ok, f"{kind}, {chosen}: {said}"
    return True


@pytest.mark.parametrize("kind", TOUCHED)
def test_structured_mutations(kind: str, statements: dict[str, Statement], folder: Path) -> None:
    """500 in all: none that changes a derived leaf verifies."""
    many(kind, statements[kind], folder, EXAMPLES // len(TOUCHED))


@pytest.mark.soak
@pytest.mark.parametrize("kind", TOUCHED)
def test_many_structured_mutations(kind: str, statements: dict[str, Statement], folder: Path) -> None:
    """10,000 in all."""
    many(kind, statements[kind], folder, SOAK // len(TOUCHED))


def many(kind: str, original: Statement, folder: Path, examples: int) -> None:
    """That many mutations, chosen by Hypothesis from a seed of the kind; at least half change a derived leaf."""
    met = []

    @seed(int.from_bytes(hashlib.sha256(kind.encode()).digest()[:8], "big"))
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**64 - 1))
    def each(chosen: int) -> None:
        met.append(hold(kind, original, chosen, folder))

    each()
    assert len(met) >= examples
    assert sum(met) >= examples // 2


def test_every_bit_of_a_real_receipt_is_held_by_its_name() -> None:
    """The smallest committed receipt: each of its bits flipped, and the digest is no longer the one in the name."""
    path = min((ROOT / "receipts" / "evidence").glob("*/*.json"), key=lambda one: one.stat().st_size)
    content = bytearray(path.read_bytes())
    check_name(path, hashlib.sha256(content).hexdigest())
    held = 0
    for place in range(len(content)):
        for bit in range(8):
            content[place] ^= 1 << bit
            with pytest.raises(VerificationError, match=r"^name: "):
                check_name(path, hashlib.sha256(content).hexdigest())
            content[place] ^= 1 << bit
            held += 1
    assert held == 8 * path.stat().st_size


def test_the_command_refuses_flipped_bits(
    statements: dict[str, Statement], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bit in each of 24 equal parts of a receipt, in place."""
    path = receipt.write(statements["trial"], tmp_path)
    os.chmod(path, 0o644)
    content = path.read_bytes()
    assert cli.run(["verify", str(path)]) == Exit.OK
    for part in range(COMMANDS):
        changed = bytearray(content)
        changed[len(content) * part // COMMANDS] ^= 1 << (part % 8)
        path.write_bytes(changed)
        capsys.readouterr()
        assert cli.run(["verify", str(path)]) == Exit.NEGATIVE
        last = capsys.readouterr().out.splitlines()[-1]
        assert last.startswith(("NOT VERIFIED at bytes: ", "NOT VERIFIED at name: "))
