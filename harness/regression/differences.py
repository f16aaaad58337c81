"""What differs between two receipts beside their counts, and what may be compared in spite of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pp3.harness.echo import echo
from pp3.harness.regression.opened import ENGINE, SURVEY, TRIAL, Opened, identity

ABSENT = "-"


class Topic(StrEnum):
    """What a difference is about."""

    SOURCES = "sources"
    SAMPLER = "sampler"
    PLAN = "plan"
    SEED = "seed"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One value that differs; "-" where there is none."""

    topic: Topic
    name: str
    old: str
    new: str


def differences(old: Opened, new: Opened) -> list[Difference]:
    """Every file, declaration, plan value, seed and version that differs, by topic."""
    found: list[Difference] = []
    for topic in Topic:
        one, other = (dict(_values(topic, opened)) for opened in (old, new))
        found += [
            Difference(topic=topic, name=name, old=one.get(name, ABSENT), new=other.get(name, ABSENT))
            for name in sorted(one.keys() | other.keys())
            if one.get(name) != other.get(name)
        ]
    return found


def not_correctness(old: Opened, new: Opened) -> str:
    """Why the two cannot be compared for correctness; "" if they can: both verify, and share laws."""
    for name, opened in (("OLD", old), ("NEW", new)):
        if opened.unverified:
            return f"{name} {opened.unverified}"
    if "plan" not in old.predicate:
        return ""
    one, other = laws(old.predicate), laws(new.predicate)
    shared = one.keys() & other.keys()
    if not shared:
        return f"no target in common: {', '.join(one)} there, {', '.join(other)} here"
    changed = other_laws(old.predicate, new.predicate)
    return f"the law of {changed[0]} is another one" if changed else ""


def other_laws(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Targets of both plans whose laws differ."""
    one, other = laws(old), laws(new)
    return sorted(name for name in one.keys() & other.keys() if one[name] != other[name])


def laws(predicate: dict[str, Any]) -> dict[str, str]:
    """Digest of the law of every target."""
    plan = predicate["plan"]
    if predicate.get("kind") == ENGINE:
        return {plan["target"]: plan["lawSha256"]}
    return {target["name"]: target["lawSha256"] for target in plan["targets"]}


def _values(topic: Topic, opened: Opened) -> Iterator[tuple[str, str]]:
    p = opened.predicate
    match topic:
        case Topic.SOURCES:
            yield from ((subject["name"], subject["digest"]["sha256"]) for subject in opened.statement["subject"])
            yield from p["sampler"]["files"] if p["kind"] == TRIAL else ()
        case Topic.SAMPLER if p["kind"] != SURVEY:
            sampler = {key: value for key, value in p["sampler"].items() if key not in ("device", "files")}
            yield from _flat("", sampler)
        case Topic.PLAN:
            yield from _flat("", p.get("plan", {}))
        case Topic.SEED:
            yield from [("counter", str(p["seed"]["counter"]))] if "seed" in p else ()
        case Topic.ENVIRONMENT:
            yield from _flat("", p["environment"])
            yield from _flat("device.", identity(p))
            yield "pp3", p["tool"].get("version", ABSENT)


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, str]]:
    """Names and values of the leaves of a document; rows of a list that have a name go by it."""
    if isinstance(value, Mapping):
        for key, inside in value.items():
            yield from _flat(f"{prefix}{key}.", inside)
    elif isinstance(value, list) and value and all(isinstance(row, Mapping) and "name" in row for row in value):
        for row in value:
            yield from _flat(f"{prefix}{row['name']}.", {key: inside for key, inside in row.items() if key != "name"})
    else:
        yield prefix.rstrip("."), value if isinstance(value, str) else echo(value)
