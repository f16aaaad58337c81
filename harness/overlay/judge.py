"""The verdict on the overlays: the trial's, and the temperature-0 pairs against the image's point-mass path."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pp3.harness.errors import VerificationError
from pp3.harness.overlay.pins import MARKERS, overlay_of
from pp3.harness.overlay.problems import depth_of
from pp3.harness.overlay.refusal import OverlayError
from pp3.harness.seeds import Seed
from pp3.harness.trial import judge
from pp3.harness.trial.judge import TrialJudgement
from pp3.harness.trial.measured import Measured
from pp3.harness.trial.plan import Trial
from pp3.harness.verdict import Verdict

AGAINST = "the unchanged image's point-mass path"


def conclude(
    trial: Trial,
    measured: Measured,
    where: str,
    pairs: Sequence[Mapping[str, Any]],
    journey: dict[str, Any] | None = None,
) -> TrialJudgement:
    """Judge what was counted, what was paired, and what a path did (path.Journey); `where` names the device."""
    judged = judge.conclude(trial, measured, where)
    total, wrong = sum(row["pairs"] for row in pairs), sum(row["mismatches"] for row in pairs)
    first = next((row for row in pairs if row["mismatches"]), None)
    reasons = list(judged.reasons)
    verdict = judged.verdict
    if first is not None:
        said = first["first"]
        reasons.insert(
            0,
            f"{first['target']}: {wrong:,} of {total:,} temperature-0 pairs differ ({said['path']}: request "
            f"{said['request']} got {said['got']}, expected {said['expected']})",
        )
        verdict = verdict if verdict is Verdict.INVALID else Verdict.FAIL
    against: list[str] = []
    if journey:
        from pp3.harness.transport.losses import findings  # the path itself

        against = findings(journey)
    if against:
        reasons = [*against, *reasons]
        verdict = verdict if verdict is Verdict.INVALID else Verdict.FAIL
    return replace(
        judged, verdict=verdict, reasons=reasons, sentence=_sentence(trial, verdict, reasons, where, total, journey)
    )


def shares(trial: Trial, pairs: int) -> list[tuple[str, int]]:
    """How many of all pairs each target gets, the first ones one more where they do not divide."""
    base, rest = divmod(pairs, len(trial.problems))
    return [(problem.name, base + (at < rest)) for at, problem in enumerate(trial.problems)]


def check(predicate: Mapping[str, Any], trial: Trial) -> None:
    """VerificationError unless a receipt's overlay is the reviewed one of its version, its pairs tile their sum, and
    what was to be lost on the way is what plan and seed imply."""
    overlay = predicate["overlay"]
    attestation, version = overlay["attestation"], trial.who.version
    try:
        pinned = overlay_of(version)
    except OverlayError as error:
        raise VerificationError(f"plan: {error}") from None
    files = {row["name"]: (row["sourceSha256"], row["sha256"]) for row in attestation["files"]}
    if files != {name: (pin.source, pin.result) for name, pin in pinned.items()}:
        raise VerificationError(f"plan: the overlay's files are not the reviewed ones of vllm {version}")
    if attestation["vllm"] != version or attestation["markers"] != MARKERS:
        raise VerificationError(f"plan: the overlay is of vllm {attestation['vllm']}, or has other markers")
    said = [(row["target"], row["pairs"]) for row in overlay["paired"]]
    if said != shares(trial, sum(count for _, count in said)):
        raise VerificationError(f"plan: the pairs {said} do not tile their sum over the targets of the plan")
    for row in overlay["paired"]:
        depth = depth_of(row["target"])
        wrong = row["mismatches"]
        if row["depth"] != depth or wrong > row["pairs"] or bool(wrong) != bool(row["first"]):
            raise VerificationError(f"plan: pairs of {row['target']} cannot be {row}")
    if predicate["broken"]:  # which launches there were is not known, and the verdict is INVALID
        return
    from pp3.harness.overlay import way  # loads the path itself

    seed = Seed.of(predicate["planSha256"], predicate["seed"]["counter"])
    try:
        way.check(trial, seed, predicate["sampler"]["device"]["backend"], overlay)
    except VerificationError as error:
        raise VerificationError(f"way: {error}") from None


def _sentence(
    trial: Trial, verdict: Verdict, reasons: list[str], where: str, pairs: int, journey: dict[str, Any] | None
) -> str:
    who = f"the overlays of vLLM {trial.who.version} on {where}"
    scale = f"{len(trial.problems)} targets in {trial.requests:,} requests"
    way = ""
    if journey:
        lost = sum(journey["injected"].values())
        way = f" of the {journey['rows']:,} that went over the wire the {lost:,} that were to be lost were lost;"
    if verdict is Verdict.PASS:
        return (
            f"PASS: no evidence against {who} emitting the target's law, on {scale} (family alpha {trial.spec.alpha:g};"
            f" an error of {trial.resolution:.4f} in total variation of a first token's law would be seen with power"
            f" {trial.spec.power:g});{way} {pairs:,} temperature-0 pairs equal {AGAINST}. Experimental; self-attested."
        )
    said = {
        Verdict.FAIL: "do not emit the target's law",
        Verdict.INVALID: "broke the sampler contract",
        Verdict.INCONCLUSIVE: "are not decided",
        Verdict.TOLERATED: "deviate within the tolerance",
    }[verdict]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{verdict.value}: {who} {said}, on {scale}: {reasons[0]}{more}. Experimental; self-attested."
