"""A small real receipt of each kind, as its command builds it."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from pp3.harness import backends, cli
from pp3.harness import campaign as campaigns
from pp3.harness.backends import Backend
from pp3.harness.campaign import our_limits, plan_sha256
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt, survey
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.exact import oracle, suite
from pp3.harness.kernel_evidence import known_answers
from pp3.harness.run import Measured, _campaign
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed
from pp3.harness.transport import command as over_wire
from pp3.harness.transport import wire_plan
from pp3.harness.transport.path import PathSampler
from pp3.harness.transport.place import Place
from pp3.harness.transport.stage import ReferenceStage
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run
from pp3.harness.verdict import conclude

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
COUNTER = 7
Statement = dict[str, Any]
RIGHT = cache(suite.right)


def of_qualify(measure: Any) -> Statement:
    campaign = campaigns.of_document(
        {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
    )
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    measured = measure(campaign, drawn)
    who = receipt.sampler_of(measured.sampler, Backend(measured.sampler.backend))
    parts = (measured.counts, measured.first, measured.breaches, measured.pairs, measured.kernels)
    judged = conclude(campaign, *parts, who)
    return receipt.build(campaign, drawn, COUNTER, "given", STARTED, measured, judged)


def of_wire(measure: Any) -> Statement:
    campaign = wire_plan.over_wire(
        campaigns.of_document(
            {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}, "test"
        ),
        Place.THREAD,
    )
    drawn = Seed.of(plan_sha256(campaign), COUNTER)
    beside, sampler = measure(campaign, drawn), PathSampler(ReferenceStage(), campaign.place)
    measured = Measured(sampler=beside.sampler, kernels=beside.kernels, timings=beside.timings)
    _campaign(campaign, drawn, sampler, measured, lambda *_: None)
    sampler.close()
    path = sampler.journey.plain()
    judged = over_wire.judge(campaign, measured, path)
    return over_wire.build(campaign, drawn, COUNTER, "given", STARTED, measured, path, judged)


def of_engine(folder: Path) -> Statement:
    for role, option in (("target", []), ("draft", ["--draft"])):
        assert cli.run(["checkpoint", "chain-64", *option, "--out", str(folder / role)]) == Exit.OK
    served = ["--checkpoint", str(folder / "target"), "--draft-checkpoint", str(folder / "draft")]
    out = folder / "engine"
    asked = ["--tokens", "20000", "--counter", str(COUNTER), "--out", str(out)]
    assert cli.run(["qualify", "--engine", "reference", *served, *asked]) in (Exit.OK, Exit.INCONCLUSIVE)
    return receipt.read(next(out.glob("*.json")))[1]


def of_trial() -> Statement:
    sampler, threads = Multinomial(), torch.get_num_threads()
    torch.set_num_threads(1)
    spec = TrialSpec(sampler="multinomial", targets=["rows-of-4", "rows-of-8"], requests=2000)
    trial = make(spec, sampler.describe(), "test")
    measured = run(trial, sampler, Seed.of(trial.plan_sha256, COUNTER), "cpu", lambda *_: None)
    torch.set_num_threads(threads)
    one = Found(trial=trial, device=identity("cpu"), measured=measured, sources=Sources([["a.py", "0" * 64]], {}))
    return trial_receipt.build(one, COUNTER, "given", STARTED, trial_receipt.judge(one))


def of_exact(kind: str) -> Statement:
    who = receipt.sampler_of(our_limits(), Backend.REFERENCE)
    named = backends.identity(Backend.REFERENCE)
    kernels = {"bits": [], "conform": known_answers(Backend.REFERENCE), "identity": named}
    if kind == "oracle":
        seen = oracle.observe(Backend.REFERENCE, lambda *_: None)
        return receipt.build_exact(kind, STARTED, who, kernels, seen, oracle.conclude(seen, who, kernels))
    found = [RIGHT(which, False).plain() for which in suite.IDS]
    return receipt.build_exact(kind, STARTED, who, kernels, found, suite.conclude(found, who, kernels))


def of_survey(trial: Statement, file: Path) -> Statement:
    p = trial["predicate"]
    row = {key: p[key] for key in survey.COPIED} | {"version": p["sampler"]["version"], "name": "multinomial"}
    row |= {"about": "a control", "receipt": file.name, "requests": survey.requests_of(p)}
    return survey.build(STARTED, [row], {"another": "not installed"})
