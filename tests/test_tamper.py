"""Tampering, sealed anew: whatever of a receipt `leaves` calls derived cannot be changed, by leaf or by structure.

Every change is written canonically and under its new digest, as a forger would, so that neither the bytes nor the name
give it away. The suites of test_verify.py and test_trial_receipt.py name a step for each change; here is every leaf.
"""

import copy
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from altered import sealed_in as sealed
from every_receipt import RIGHT, of_engine, of_exact, of_qualify, of_survey, of_trial, of_wire
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from mutations import TOUCHED, derived_of, mutate, near, others, places, put, value_at

from pp3.harness import campaign as campaigns
from pp3.harness import canonical, cli
from pp3.harness.calibrate import far, judge
from pp3.harness.calibrate.found import battery_of
from pp3.harness.campaign import plan_sha256
from pp3.harness.design import Check
from pp3.harness.errors import Exit, VerificationError
from pp3.harness.evidence import calibration, kernels, leaves, provenance, receipt, rows
from pp3.harness.evidence.leaves import Held
from pp3.harness.evidence.verify import check_name
from pp3.harness.exact import suite

ROOT = Path(__file__).resolve().parents[1]
KINDS = tuple(leaves.RULES)
EXAMPLES, SOAK = 500, 10_000
MOST = {"oracle": 1, "calibration": 4}  # values that a leaf is given, where a receipt takes longer to verify
COMMANDS = 24  # flipped bits that the whole command is given
Statement = dict[str, Any]
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
    found = {"qualify": of_qualify(measure), "trial": of_trial(), "oracle": of_exact("oracle")}
    found["exhaustive"] = of_exact("exhaustive")
    found["probe"] = probed.statement()
    found["calibration"] = calibrated.statement()
    found["wire"] = of_wire(measure)
    found["engine"] = of_engine(folder)
    found["survey"] = of_survey(found["trial"], receipt.write(found["trial"], folder))
    return {kind: canonical.decode(canonical.encode(one)) for kind, one in found.items()}


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
