"""Whether an engine may take sampled drafts: two switches, off by default, and a guard that admits one configuration.

`DSPARK_SAMPLED_TOP32` is the drafter's switch, `VLLM_DSPARK_SAMPLED_TOP32` the engine's; only "1" enables. One alone
shows at HELLO, where each side refuses the other's mode. Nothing here sets them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pp3.harness.errors import CampaignError
from pp3.harness.transport.frame import DEPTHS, SLOTS, Mode

WORKER_SWITCH = "DSPARK_SAMPLED_TOP32"
ENGINE_SWITCH = "VLLM_DSPARK_SAMPLED_TOP32"
ENABLED = "1"
SAMPLER_MARKER = "pp3-sampler-overlay/dyadic24-floor-first-v1"
RUNNER_MARKER = "pp3-runner-overlay/dyadic24-floor-first-v1"
CAPACITY, STANDARD = "capacity", "standard"


class Barrier(StrEnum):
    """Why an engine is not admitted; each is named in the refusal."""

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
    """An engine that may not take sampled drafts, with every barrier."""

    def __init__(self, barriers: tuple[Barrier, ...]) -> None:
        named = "; ".join(barrier.value for barrier in barriers)
        super().__init__(f"sampled drafts are not admitted: {named}; see docs/integration.md")
        self.barriers = barriers


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Leave for one session. Only `admit` makes one."""

    depth: int
    slots: int
    granted: object = field(repr=False)

    def __post_init__(self) -> None:
        if self.granted is not _GRANT:
            raise TypeError("an admission is not made by hand; ask admit()")


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
    barriers = tuple(barrier for barrier, there in met.items() if there)
    if barriers:
        raise NotAdmittedError(barriers)
    return Admission(depth=engine.depths[0], slots=engine.slots, granted=_GRANT)
