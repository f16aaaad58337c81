"""Mutations of a receipt: where its leaves are, values near and far, and structures put in other places."""

import copy
import random
from typing import Any

from altered import Statement, reseal_plan

from pp3.harness.evidence import leaves
from pp3.harness.evidence.leaves import Held

WITHIN = 1e-5  # of a number stored to six digits, relatively: docs/receipts.md
Keys = tuple[str | int, ...]
Places = dict[str, list[Keys]]


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
