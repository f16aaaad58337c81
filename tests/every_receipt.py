"""A small real receipt of each kind, as its command builds it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from built import COUNTER, STARTED, Measure, Statement, qualified, wired
from engine_runs import arguments, models_in
from one_thread import one_thread

from pp3.harness import backends, cli
from pp3.harness.backends import Backend
from pp3.harness.campaign import our_limits
from pp3.harness.errors import Exit
from pp3.harness.evidence import receipt, survey
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.exact import oracle, suite
from pp3.harness.kernel_evidence import known_answers
from pp3.harness.samplers.torch_controls import Multinomial
from pp3.harness.seeds import Seed
from pp3.harness.trial.device import identity
from pp3.harness.trial.order import Sources
from pp3.harness.trial.parent import Found
from pp3.harness.trial.plan import TrialSpec, make
from pp3.harness.trial.run import run

PLAN = {"targets": ["disjoint"], "requests": 500, "paired": 20, "depths": [4], "batch_sizes": [2]}
RIGHT = cache(suite.right)


def of_qualify(measure: Measure) -> Statement:
    return qualified(PLAN, measure)


def of_wire(measure: Measure) -> Statement:
    return wired(PLAN, measure)


def of_engine(folder: Path) -> Statement:
    out = folder / "engine"
    asked = ["--tokens", "20000", "--counter", str(COUNTER), "--out", str(out)]
    assert cli.run(arguments(models_in(folder), *asked)) in (Exit.OK, Exit.INCONCLUSIVE)
    return receipt.read(next(out.glob("*.json")))[1]


def of_trial(targets: Sequence[str] = ("rows-of-4", "rows-of-8"), requests: int = 2000) -> Statement:
    sampler = Multinomial()
    spec = TrialSpec(sampler="multinomial", targets=[*targets], requests=requests)
    trial = make(spec, sampler.describe(), "test")
    with one_thread():
        measured = run(trial, sampler, Seed.of(trial.plan_sha256, COUNTER), "cpu", lambda *_: None)
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
