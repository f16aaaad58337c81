"""Whether sampled drafts may be taken, or made: two switches, off by default, and a guard on each side.

`DSPARK_SAMPLED_TOP32` is the drafter's switch, `VLLM_DSPARK_SAMPLED_TOP32` the engine's; only "1" enables. One alone
shows at HELLO, where each side refuses the other's mode. Nothing here sets them. The engine's guard admits one
configuration; the drafter, which knows of the engine only its HELLO, is admitted by that.
"""

from collections.abc import Mapping
from dataclasses import InitVar, dataclass
from enum import StrEnum
from typing import NoReturn, final

from pp3.harness.errors import CampaignError
from pp3.harness.transport import hello
from pp3.harness.transport.frame import DEPTHS, SLOTS, Mode

WORKER_SWITCH = "DSPARK_SAMPLED_TOP32"
ENGINE_SWITCH = "VLLM_DSPARK_SAMPLED_TOP32"
ENABLED = "1"
SAMPLER_MARKER = "pp3-sampler-overlay/dyadic24-floor-first-v1"
RUNNER_MARKER = "pp3-runner-overlay/dyadic24-floor-first-v1"
CAPACITY, STANDARD = "capacity", "standard"


class Side(StrEnum):
    """Whom an admission is for."""

    ENGINE = "engine"  # takes sampled drafts
    DRAFTER = "drafter"  # makes them


class Barrier(StrEnum):
    """Why a side is not admitted; each is named in the refusal."""

    ENGINE_SWITCH = "the engine's switch is off"
    SAMPLER_OVERLAY = "no sampler overlay"
    RUNNER_OVERLAY = "no runner overlay"
    POLICY = "a draft policy other than capacity"
    MARGINS = "margins"
    SLOTS = "more than four slots, or none"
    DEPTH = "no single depth of 4 or 5 for the session"
    BLOCK = "block verification"
    SYNTHETIC = "synthetic acceptance"
    REJECTION = "a rejection method other than standard"
    WATERMARKING = "watermarking"
    ADAPTIVE_VERIFICATION = "adaptive verification"
    DEPTH_FILE = "reloading the depth from a file"
    PROMPT_LOOKUP = "prompt lookup"
    DYNAMIC_SCHEDULE = "a dynamic schedule"
    DRAFTER_SWITCH = "the drafter's switch is off"
    UNSAMPLED = "a session that agreed at HELLO on no sampled drafts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What an engine says of itself. What it does not say is taken as off, but for the two markers and the depth."""

    sampler_marker: str = ""  # of the overlay that is loaded, "" without one
    runner_marker: str = ""
    policy: str = CAPACITY
    margins: tuple[float, ...] = ()
    slots: int = SLOTS
    rejection: str = STANDARD
    depths: tuple[int, ...] = ()  # every depth that a session may use
    watermarking: bool = False
    adaptive_verification: bool = False
    depth_file: str = ""
    prompt_lookup: bool = False
    dynamic_schedule: bool = False


class NotAdmittedError(CampaignError):
    """A side that may not take or make sampled drafts, with every barrier."""

    def __init__(self, barriers: tuple[Barrier, ...]) -> None:
        named = "; ".join(barrier.value for barrier in barriers)
        super().__init__(f"sampled drafts are not admitted: {named}; see docs/integration.md")
        self.barriers = barriers


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Leave for one session: made by `admit` and `admit_drafter` alone, neither by hand nor by changing another."""

    side: Side
    depth: int
    slots: int
    grant: InitVar[object]  # not kept, so that no copy with another depth can be made of it

    def __post_init__(self, grant: object) -> None:
        if grant is not _GRANT:
            raise TypeError("an admission is not made by hand; ask admit()")

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("an admission has no other kinds; ask admit()")


_GRANT = object()


def mode_of(environment: Mapping[str, str], switch: str) -> Mode:
    """The mode that a switch asks for."""
    return Mode.SAMPLED if environment.get(switch) == ENABLED else Mode.UNSAMPLED


def admit(engine: Engine, environment: Mapping[str, str]) -> Admission:
    """Leave for the engine's session. NotAdmittedError names every barrier."""
    met = {
        Barrier.ENGINE_SWITCH: mode_of(environment, ENGINE_SWITCH) is not Mode.SAMPLED,
        Barrier.SAMPLER_OVERLAY: engine.sampler_marker != SAMPLER_MARKER,
        Barrier.RUNNER_OVERLAY: engine.runner_marker != RUNNER_MARKER,
        Barrier.POLICY: engine.policy != CAPACITY,
        Barrier.MARGINS: bool(engine.margins),
        Barrier.SLOTS: not 1 <= engine.slots <= SLOTS,
        Barrier.DEPTH: len(engine.depths) != 1 or engine.depths[0] not in DEPTHS,
        Barrier.BLOCK: engine.rejection == "block",
        Barrier.SYNTHETIC: engine.rejection == "synthetic",
        Barrier.REJECTION: engine.rejection not in (STANDARD, "block", "synthetic"),
        Barrier.WATERMARKING: engine.watermarking,
        Barrier.ADAPTIVE_VERIFICATION: engine.adaptive_verification,
        Barrier.DEPTH_FILE: bool(engine.depth_file),
        Barrier.PROMPT_LOOKUP: engine.prompt_lookup,
        Barrier.DYNAMIC_SCHEDULE: engine.dynamic_schedule,
    }
    _refuse(met)
    return Admission(side=Side.ENGINE, depth=engine.depths[0], slots=engine.slots, grant=_GRANT)


def admit_drafter(mine: hello.Hello, theirs: bytes, depth: int, environment: Mapping[str, str]) -> Admission:
    """Leave for the drafter's session with the engine that sent this HELLO, at its one depth.

    FrameError for a HELLO that is refused; NotAdmittedError names every barrier.
    """
    hello.judge(theirs, mine)
    _refuse(
        {
            Barrier.DRAFTER_SWITCH: mode_of(environment, WORKER_SWITCH) is not Mode.SAMPLED,
            Barrier.UNSAMPLED: mine.mode is not Mode.SAMPLED,
            Barrier.DEPTH: depth not in DEPTHS,
        }
    )
    return Admission(side=Side.DRAFTER, depth=depth, slots=SLOTS, grant=_GRANT)


def held(given: object, side: Side) -> Admission:
    """An admission of this side, which whoever needs one asks for. CampaignError for anything else."""
    if not isinstance(given, Admission) or given.side is not side:
        what = f"that of the {given.side}" if isinstance(given, Admission) else f"{type(given).__name__}, which is none"
        raise CampaignError(
            f"sampled drafts need an admission of the {side}; given was {what}: see docs/integration.md"
        )
    return given


def _refuse(met: Mapping[Barrier, bool]) -> None:
    barriers = tuple(barrier for barrier, there in met.items() if there)
    if barriers:
        raise NotAdmittedError(barriers)
