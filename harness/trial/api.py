"""`from pp3 import qualify`: judge a sampler object from Python, in this process, without writing anything."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from pp3.harness import promise
from pp3.harness.design import families
from pp3.harness.errors import CampaignError
from pp3.harness.evidence.store import check_counter
from pp3.harness.samplers.contract import Description, Sampler
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import choose, identity, interpreted, launches, name_of
from pp3.harness.trial.findings import lines
from pp3.harness.trial.plan import QUICK, Progress, Trial, TrialSpec, make, with_enough
from pp3.harness.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of a sampler. `passed` is the verdict as a truth value; str() is what there is to say."""

    verdict: Verdict
    sentence: str
    reasons: list[str]
    hints: list[str]  # what the targets of the reasons are for
    resolution: float  # total variation of a first token's law that would have been seen
    requests: int

    @property
    def passed(self) -> bool:
        """PASS or TOLERATED."""
        return self.verdict in (Verdict.PASS, Verdict.TOLERATED)

    def __str__(self) -> str:
        return "\n".join([self.sentence, *lines(self.reasons, self.hints)])


def qualify(
    sampler: Sampler,
    *,
    profile: str | None = None,
    targets: Sequence[str] = (),
    requests: int | None = None,
    detect: float = 0.0,
    tolerance: float = 0.0,
    alpha: float = 1e-5,
    device: str = "auto",
    counter: int = 1,
    progress: Progress = lambda stage, done, total: None,
) -> Report:
    """Judge a sampler on the targets of its kind; the same counter gives the same requests.

    profile: plain, proposal, verifier, pipeline or engine; by default the sampler's kind; an error if it is another.
    requests: of each law; by default 20,000, or as many as `detect`, a total variation to be seen, needs.
    tolerance: total variation up to which a significant deviation is TOLERATED.
    Raises CampaignError for a bad argument; a FAIL is a value, not an exception.
    """
    from pp3.harness.trial.judge import conclude
    from pp3.harness.trial.run import run

    who = describe(sampler)
    if profile is not None and profile != who.kind:
        raise CampaignError(f"profile {profile!r}: {who.name} says it is {str(who.kind)!r}; one of them is wrong")
    check_counter(counter)
    given = {"targets": [targets] if isinstance(targets, str) else list(targets), "alpha": alpha, "detect": detect}
    given["tolerance"] = tolerance
    try:
        spec = msgspec.convert(
            {"sampler": who.name, "requests": QUICK if requests is None else requests, **given}, TrialSpec
        )
    except msgspec.ValidationError as error:
        raise CampaignError(f"qualify: {error}") from None
    trial = plan(spec, who, "qualify", given=requests is not None)
    where = choose(device)
    with launches() as launched:
        measured = run(trial, sampler, Seed.of(trial.plan_sha256, counter), where, progress)
        said = identity(where, interpreted(who, launched()))
    judged = conclude(trial, measured, name_of(said))
    return Report(
        verdict=judged.verdict,
        sentence=judged.sentence,
        reasons=judged.reasons,
        hints=judged.hints,
        resolution=judged.resolution,
        requests=measured.requests,
    )


def describe(sampler: Any) -> Description:
    """What a sampler says of itself. CampaignError if it says nothing that can be used."""
    name = f"{sampler.__name__} itself" if isinstance(sampler, type) else type(sampler).__name__
    if isinstance(sampler, type) or not all(callable(getattr(sampler, part, None)) for part in ("describe", "run")):
        raise CampaignError(
            f"{name} is no sampler: it must be an object with describe() and run(batch); `pp3 init` writes one"
        )
    try:
        who = sampler.describe()
    except (Exception, SystemExit) as error:
        raise CampaignError(f"{name}.describe() raised {type(error).__name__}: {error}") from error
    if not isinstance(who, Description):
        raise CampaignError(f"{name}.describe() gave {type(who).__name__}; want a pp3.Description")
    return who


def plan(spec: TrialSpec, who: Description, where: str, given: bool, most: int = 0) -> Trial:
    """A checked plan; with `detect` and no number of requests given, with as many as it needs, or `most` if not 0.

    A promise that `most` cannot keep makes the verdict INCONCLUSIVE. CampaignError if the given number cannot keep it,
    with the number that would.
    """
    trial = make(spec, who, where)
    promise.supported(families(trial.groups), spec.weights, where)
    if given:
        promise.fillable(spec.requests, spec.pool, where)
    enough = with_enough(trial, where)
    if given and enough is not trial:
        raise CampaignError(
            f"{where}: detect = {spec.detect:g} needs {enough.spec.requests:,} requests of each law, and requests = "
            f"{spec.requests:,}; give as many, or leave the number out, or a larger detect"
        )
    if most and enough.spec.requests > most:
        return make(msgspec.structs.replace(spec, requests=most), who, where)
    return enough
