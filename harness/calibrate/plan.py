"""What a calibration runs, fixed before it: null campaigns at two levels, by one plan, whose digest seeds them."""

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
import numpy as np

from pp3.harness import campaign, canonical
from pp3.harness.campaign import Campaign
from pp3.harness.errors import CampaignError
from pp3.harness.seeds import Seed

CAMPAIGNS, REQUESTS_CAMPAIGNS = 10_000, 1_000
LEAST, MOST = 200, 1_000_000  # null campaigns of a level: ten in each bin of a histogram
CHUNK = 500  # campaigns drawn at once: whatever the processes, their numbers are the same
RUN = {"name": "calibration", "requests": 2_000, "paired": 0, "depths": [4], "batch_sizes": [4]}  # with real requests
ALPHAS = (0.2, 0.05, 0.01)  # of a family, at which rejections are counted
FAR = 1e-5  # of a family, far beyond what campaigns can count
BAND = 0.999  # two-sided, of each rate
UNIFORM = 0.001  # level of all tests of uniformity together
RATES = (0.1, 0.01, 0.001)  # of single p-values
BINS, FAMILY_BINS = 20, 100
DRAWS = 20_000  # weighted draws of a check's far tail
DRAWN = (
    "sha256(seed || label || number u64 little-endian): Philox 4x64 keys by chunk of counts, and the seed of each "
    "campaign of requests"
)


class Level(StrEnum):
    """Where a null campaign begins."""

    COUNTS = "counts"  # each cell's counts are drawn from its exact law
    REQUESTS = "requests"  # the reference runs each request, and the real tallies count


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Both levels."""

    campaigns: dict[Level, int]
    of: dict[Level, Campaign]  # whose checks are judged

    @property
    def plain(self) -> dict[str, Any]:
        """Everything fixed before the run, in plain values."""
        return {
            "alphas": [repr(alpha) for alpha in ALPHAS],
            "band": repr(BAND),
            "bins": BINS,
            "campaigns": {level.value: self.campaigns[level] for level in Level},
            "chunk": CHUNK,
            "draws": DRAWS,
            "drawn": DRAWN,
            "far": repr(FAR),
            "of": {level.value: self.of[level].plan for level in Level},
            "rates": [repr(rate) for rate in RATES],
            "uniform": repr(UNIFORM),
        }

    @property
    def sha256(self) -> str:
        """Digest of the plan, from which the seed follows."""
        return canonical.sha256(self.plain)


def make(campaigns: int, requests_campaigns: int, of: dict[Level, Campaign] | None = None) -> Plan:
    """A plan of so many campaigns at each level. CampaignError for a number that cannot be."""
    for option, value in (("--campaigns", campaigns), ("--requests-campaigns", requests_campaigns)):
        if not LEAST <= value <= MOST and (value or option == "--campaigns"):
            none = ", or 0 for none" if option != "--campaigns" else ""
            raise CampaignError(f"{option} {value}: it must be from {LEAST} to {MOST:,}{none}")
    chosen = of or {
        Level.COUNTS: campaign.load(None),
        Level.REQUESTS: campaign.of_document(dict(RUN), "calibration"),
    }
    return Plan(campaigns={Level.COUNTS: campaigns, Level.REQUESTS: requests_campaigns}, of=chosen)


def of_plan(plain: dict[str, Any]) -> Plan:
    """The plan of a receipt, built again; the caller compares the digests."""
    of = {level: campaign.of_plan(plain["of"][level.value]) for level in Level}
    counted, requested = (plain["campaigns"][level.value] for level in Level)
    return make(counted, requested, of)


def at(chosen: Campaign, alpha: float) -> Campaign:
    """The same campaign with another family alpha."""
    return Campaign(spec=msgspec.structs.replace(chosen.spec, alpha=alpha), targets=chosen.targets)


def digest(seed: Seed, label: str, number: int) -> bytes:
    """What the random numbers of one chunk or campaign follow from."""
    return hashlib.sha256(seed.value + label.encode() + number.to_bytes(8, "little")).digest()


def stream(seed: Seed, label: str, number: int) -> np.random.Generator:
    """Random numbers of one chunk."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest(seed, label, number)[:16], "little")))


def seed_of(seed: Seed, number: int) -> Seed:
    """The seed of one campaign of requests."""
    return Seed(digest(seed, "requests", number))
