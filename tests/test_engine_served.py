"""The battery over a real socket: our own server passes, each fault planted in its runner is caught by its check."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pp3.harness.engine.asks import pieces
from pp3.harness.engine.completions import connect
from pp3.harness.engine.judge import judge
from pp3.harness.engine.model import load
from pp3.harness.engine.plan import LEAST_TOKENS, EngineSpec, make
from pp3.harness.engine.run import Runner as BatteryRunner
from pp3.harness.engine.runner import Runner
from pp3.harness.engine.runner_faults import FAULTS
from pp3.harness.engine.server import Engine, Server
from pp3.harness.engine.tally import Found
from pp3.harness.seeds import Seed

NAME, DEPTH, SLOTS = "chain-64", 3, 6  # six in flight: no power of two, so that batches are padded

CAUGHT = {  # fault: condition, check
    "row-order": ("churn", "churn/rank"),
    "padding": ("starts", "starts/rank"),
    "slot-seed": ("replay", "replay/slot"),
    "one-path": ("top-k", "top-k/token"),
    "stale-draft": ("stream", "stream/rank"),
    "nothing-stops": ("stop", "stop/after"),
    "past-stop": ("end", "end/after"),
    "shared-seed": ("replay", "replay/batch"),
    "other-logprobs": ("logprobs", "logprobs/tolerance"),
    "aborted-neighbour": ("aborted", "aborted/rank"),
}


@contextmanager
def served(kind: type[Runner]) -> Iterator[str]:
    """A server on a socket of this process."""
    server = Server(Engine(kind(load(NAME), slots=SLOTS, depth=DEPTH, seed=7), "own"), 0)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def outcomes(kind: type[Runner], only: set[str], test: str) -> dict[str, str]:
    """What each check of some conditions says."""
    with served(kind) as url:
        engine = connect(url, "own", 64, speculate=True)
        spec = EngineSpec(target=NAME, draft=True, tokens=LEAST_TOKENS, concurrency=SLOTS)
        plan = make(spec, engine.facts)
        seed = Seed.of(plan.sha256, int.from_bytes(hashlib.sha256(test.encode()).digest()[:6], "little"))
        runner, found = BatteryRunner(plan, seed, engine), Found()
        for piece in pieces(plan):
            if piece.condition.name in only:
                found.add(runner.run(piece))
        engine.close()
    said = {
        check.id: judge(check, found.counts[check.id], plan.spec.power).outcome
        for check in plan.checks
        if check.id in found.counts
    }
    return said | {name: "fail" if wrong else "pass" for name, (_, wrong) in found.exact.items()}


@pytest.mark.soak
def test_the_sound_server_passes_each_of_these_checks(request: pytest.FixtureRequest) -> None:
    said = outcomes(Runner, {condition for condition, _ in CAUGHT.values()}, request.node.nodeid)
    assert {check for _, check in CAUGHT.values()} <= said.keys()
    assert "fail" not in said.values()


SLOW = ("slot-seed", "shared-seed")  # replay in four arrangements


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.soak) if fault in SLOW else fault for fault in CAUGHT]
)
def test_a_fault_is_caught_by_its_check(fault: str, request: pytest.FixtureRequest) -> None:
    condition, check = CAUGHT[fault]
    assert outcomes(FAULTS[fault].runner, {condition}, request.node.nodeid)[check] == "fail"


def test_every_fault_has_its_check() -> None:
    assert CAUGHT.keys() == FAULTS.keys()
