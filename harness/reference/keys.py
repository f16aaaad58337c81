"""docs/reference/campaign.md: every key of a campaign file, from the shapes that read it.

A limit is what the reader itself says of a value beyond it: each key is tried with one, so a limit that moves in the
code moves here.
"""

import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from pp3.harness import campaign, document, target_file, weights
from pp3.harness.campaign import CampaignSpec
from pp3.harness.errors import CampaignError
from pp3.harness.reference.tables import code, table
from pp3.harness.target_file import RowSpec, TargetSpec
from pp3.harness.trial import plan
from pp3.harness.trial.plan import TrialSpec

HEAD = """\
# Campaign files

Every key that a campaign file (TOML) may have, with its type, its default and its limits, from the code that reads
it. A limit is what the reader says of a value beyond it. A key that is not here is refused, and the nearest one is
named. Options of `pp3 qualify` take the place of keys ([cli.md](cli.md#pp3-qualify)); [samplers.md](../samplers.md)
and the [README](../../README.md#a-campaign-of-your-own) have examples.

A file with a key `sampler` is a campaign of that sampler; one without is a campaign of our own.

"""
OWN = """\
## Our own sampler

"""
OTHER = """
## Another sampler

`sampler` names it; all other keys may be left out.

"""
TABLES = """
## [detect]

`detect = 0.01` and this table are the same promise; a file has one of them.

"""
TARGET = """
## [[target]]

A target of your own, beside those of [targets.md](targets.md); `targets` must list it. It has one row for all
positions, six (one a position), or one for each class of the token before (`contexts`).

"""
ROW = """
### rows

Tokens that are not listed have weight 0 and logit -inf.

"""
WEIGHTS = """
## [weights]

Shares of `alpha` by family of checks ([checks.md](checks.md)). They must sum to 1; a family that is not given has
none. Without this table:

"""
MEANINGS = {
    "name": "of the campaign, in its receipt",
    "sampler": "a file beside this one (`file.py:object`), an importable `module:object`, or a name of `pp3 samplers`",
    "targets": "the targets to run, in this order",
    "requests": "of each target; a trial's are of each law",
    "paired": "temperature-0 pairs in all, compared with the point-mass path",
    "batch_sizes": "rows of a launch; the requests of a target are shared by them and the depths",
    "depths": "draft positions of a round",
    "alpha": "chance that a right sampler fails, over the whole campaign",
    "pool": "outcomes are merged, rarest first, until each group expects so many events",
    "power": "chance that an error of the stated size is seen",
    "detect": "total variation of a first token's law that must be seen; 0 promises nothing",
    "tolerance": "total variation up to which a significant deviation is TOLERATED; 0: none is",
    "weights": "shares of alpha by family of checks; see below",
    "battery": "edition of the rules; older ones are for plans of older receipts",
    "target": "targets defined in this file; see below",
}
OF_TARGET = {
    "name": "by which `targets` lists it",
    "vocab": "number of tokens",
    "rows": "its conditional laws; see below",
    "contexts": "the class of each token, `vocab` of them; rows are then by class of the token before",
    "patterns": "which drafts are invalidated, dealt to requests in turn",
}
OF_ROW = {
    "ids": "tokens that the target may emit",
    "weights": "of each of them: integers over 2^24 that sum to 2^24",
    "draft_ids": "tokens with a draft logit",
    "draft_logits": "of each of them: finite, and exact in BF16",
}
DETECT = {"tv": "total variation of a first token's law that must be seen", "power": "chance that it is seen"}
BEYOND: dict[str, list[Any]] = {  # values that the reader refuses
    "name": ["no spaces"],
    "targets": [["disjoint"] * 2],
    "requests": [0],
    "paired": [-1],
    "batch_sizes": [[], [0]],
    "depths": [[], [3]],
    "alpha": [0.0],
    "pool": [1],
    "power": [1.0],
    "detect": [1.0],
    "tolerance": [1.0],
    "battery": [0],
}
OF_TRIALS = {of.name for of in msgspec.structs.fields(TrialSpec)}
SMALL = {"ids": [0], "weights": [1 << 24], "draft_ids": [0], "draft_logits": [0.0]}
GOOD: dict[str, Any] = {"name": "mine", "vocab": 2, "rows": [SMALL]}
WORDED: dict[str, tuple[str, dict[str, Any]]] = {  # a limit whose refusal shows the value, and what is refused for it
    "rows": ("1, 6 (one a position), or with `contexts` one for each class", {"rows": [SMALL, SMALL]}),
    "contexts": ("each below the number of rows", {"contexts": [0, 7]}),
    "ids": ("distinct, below `vocab`", {"rows": [SMALL | {"ids": [5]}]}),
    "weights": ("from 0 to 2^24, 2^24 in all", {"rows": [SMALL | {"weights": [(1 << 24) - 1]}]}),
    "draft_ids": ("distinct, below `vocab`", {"rows": [SMALL | {"draft_ids": [5]}]}),
    "draft_logits": ("finite, exact in BF16", {"rows": [SMALL | {"draft_logits": [0.1]}]}),
}
OF_CODE = {int: "integer", float: "number", str: "text"}


def page() -> str:
    """The page."""
    own = _rows(CampaignSpec, MEANINGS, {key: _limits(key, _own) for key in BEYOND})
    other = _rows(TrialSpec, MEANINGS, {key: _limits(key, _trial) for key in BEYOND.keys() & OF_TRIALS})
    worded = {key: _worded(*how) for key, how in WORDED.items()}
    said = {"name": _limits("name", _own), "vocab": _said(_build, {"vocab": 0})}
    of_target = worded | said | {"patterns": _said(_build, {"patterns": ["some"]})}
    families = [(code(name), code(repr(share))) for name, share in weights.DEFAULT.items()]
    head = ("key", "type", "default", "limits", "what it is")
    return "".join(
        (
            *(HEAD, OWN, table(head, own)),
            *(OTHER, table(head, other)),
            *(TABLES, table(("key", "type", "what it is"), _detect())),
            *(TARGET, table(head, _rows(TargetSpec, OF_TARGET, of_target))),
            *(ROW, table(head, _rows(RowSpec, OF_ROW, worded))),
            *(WEIGHTS, table(("family", "share"), families)),
        )
    )


def _rows(shape: type[msgspec.Struct], meanings: Mapping[str, str], limits: Mapping[str, str]) -> list[list[str]]:
    """A row for each key. KeyError for one whose meaning is not said."""
    hints = typing.get_type_hints(shape)
    return [
        [code(of.name), _type(hints[of.name]), _default(of), limits.get(of.name, ""), meanings[of.name]]
        for of in msgspec.structs.fields(shape)
    ]


def _type(hint: Any) -> str:
    """In TOML's words."""
    if hint in OF_CODE:
        return OF_CODE[hint]
    arguments = [one for one in typing.get_args(hint) if one is not types.NoneType]
    if typing.get_origin(hint) is list:
        return "tables" if issubclass(arguments[0], msgspec.Struct) else f"list of {_type(arguments[0])}"
    return "table" if typing.get_origin(hint) is dict else _type(arguments[0])


def _default(of: Any) -> str:
    """As TOML writes it; what is empty by default says so."""
    if of.required:
        return "required"
    value = of.default_factory() if of.default is msgspec.NODEFAULT else of.default
    if value in (None, "", [], {}):
        return "none"
    return code(f"{value:_d}" if isinstance(value, int) else repr(value).replace("'", '"'))


def _limits(key: str, reader: Callable[[dict[str, Any]], None]) -> str:
    return "; ".join(_said(reader, {key: value}) for value in BEYOND[key])


def _own(document: dict[str, Any]) -> None:
    campaign.of_document(document, "")


def _trial(document: dict[str, Any]) -> None:
    plan.check(msgspec.convert(document, TrialSpec), "")


def _build(change: dict[str, Any]) -> None:
    target_file.build_target(msgspec.convert(GOOD | change, TargetSpec), "")


def _worded(limit: str, beyond: dict[str, Any]) -> str:
    """The limit, if the reader still has it."""
    _said(_build, beyond)
    return limit


def _said(reader: Callable[[dict[str, Any]], None], beyond: dict[str, Any]) -> str:
    """What the reader says that a value must be: the last part of its refusal."""
    try:
        reader(beyond)
    except CampaignError as error:
        said = str(error)
        mark = "it must be " if "it must be " in said else "; "
        return said.partition(mark)[2]
    raise AssertionError(f"{beyond} is not refused")


def _detect() -> list[list[str]]:
    """The keys that the reader takes."""
    for key in DETECT:
        document.promised({"detect": {"tv": 0.1} | {key: 0.5}}, str(Path()))
    return [[code(key), "number", meaning] for key, meaning in DETECT.items()]
