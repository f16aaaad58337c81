"""Why a frame is refused: one code a rule of semantics section 4, in the order in which a receiver judges."""

from enum import StrEnum

from pp3.harness.errors import Exit, WireError


class Refusal(StrEnum):
    """The rule that a frame breaks first. A code belongs to one rule; its value is what is printed and counted."""

    # The frame; the size of a REPLY is held against what its step asks for
    SHORT = "short"
    LONG = "long"
    FRAME_MAGIC = "frame-magic"
    FRAME_VERSION = "frame-version"
    FRAME_KIND = "frame-kind"
    FRAME_FLAGS = "frame-flags"
    FRAME_SESSION = "frame-session"
    FRAME_SEQUENCE = "frame-sequence"
    FRAME_LENGTH = "frame-length"
    # HELLO
    HELLO_MODE = "hello-mode"
    HELLO_CAPABILITY = "hello-capability"
    HELLO_SEMANTIC = "hello-semantic"
    HELLO_NAME = "hello-name"
    HELLO_TARGET = "hello-target"
    HELLO_DRAFT = "hello-draft"
    HELLO_MARKOV = "hello-markov"
    HELLO_TOP_K = "hello-top-k"
    HELLO_TAU = "hello-tau"
    HELLO_DEPTH_MINIMUM = "hello-depth-minimum"
    HELLO_DEPTH_MAXIMUM = "hello-depth-maximum"
    # STEP
    STEP_N = "step-n"
    STEP_DEPTH = "step-depth"
    STEP_FLAGS = "step-flags"
    STEP_RESERVED = "step-reserved"
    STEP_TEMPERATURE = "step-temperature"
    STEP_PADDING = "step-padding"
    STEP_SLOT = "step-slot"
    STEP_SLOT_TWICE = "step-slot-twice"
    # REPLY, the whole
    CRC = "crc"
    BODY_ROUND = "body-round"
    BODY_N = "body-n"
    BODY_DEPTH = "body-depth"
    BODY_FLAGS = "body-flags"
    BODY_RESERVED = "body-reserved"
    TRAILER_MAGIC = "trailer-magic"
    TRAILER_SEMANTIC = "trailer-semantic"
    TRAILER_N = "trailer-n"
    TRAILER_DEPTH = "trailer-depth"
    # REPLY, a row
    ROW_STATUS = "row-status"
    ROW_GENERATION = "row-generation"
    ROW_MASK = "row-mask"
    ROW_CONFIDENCE = "row-confidence"
    ROW_TOKEN = "row-token"
    ROW_ID_RANGE = "row-id-range"
    ROW_ID_ORDER = "row-id-order"
    ROW_Q = "row-q"
    ROW_MASS = "row-mass"
    ROW_UNDRAWABLE = "row-undrawable"


HELLO_RULES = tuple(code for code in Refusal if code.startswith("hello-"))
STEP_RULES = tuple(code for code in Refusal if code.startswith("step-"))
REPLY_RULES = tuple(code for code in Refusal if code.startswith(("crc", "body-", "trailer-", "row-")))


class FrameError(WireError):
    """A frame that is refused; `code` is the first rule that it breaks."""

    def __init__(self, code: Refusal, message: str, exit_code: Exit | None = None) -> None:
        super().__init__(f"{code.value}: {message}", exit_code)
        self.code = code
