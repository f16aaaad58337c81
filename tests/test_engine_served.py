"""The battery over a real socket: our own server passes, each fault planted in its runner is caught by its check."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pp3.harness import canonical, cli
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
from pp3.harness.errors import Exit
from pp3.harness.evidence.verify import verify
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


@pytest.mark.soak
def test_the_command_judges_it_with_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every condition, over the socket: a receipt that verifies and says how it was asked."""
    model, draft = str(tmp_path / "model"), str(tmp_path / "draft")
    assert cli.run(["checkpoint", NAME, "--out", model]) == Exit.OK
    assert cli.run(["checkpoint", NAME, "--draft", "--out", draft]) == Exit.OK
    capsys.readouterr()
    with served(Runner) as url:
        asked = ["qualify", "--engine", url, "--model", "own", "--checkpoint", model, "--prompts", "text"]
        sizes = ["--tokens", str(LEAST_TOKENS), "--concurrency", str(SLOTS), "--counter", "1", "--json"]
        assert cli.run([*asked, *sizes]) == Exit.USAGE  # it speculates, and that was not said
        assert "it speculates; name its draft model with --draft-checkpoint" in capsys.readouterr().err
        asked += ["--draft-checkpoint", draft, "--out", str(tmp_path / "out"), "--dir", str(tmp_path / "pieces")]
        assert cli.run([*asked, *sizes]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    receipt = Path(said["receipt"])
    found = verify(receipt, receipt.read_bytes())
    assert (found.ok, found.verdict) == (True, "PASS")
    p = canonical.decode(receipt.read_bytes())["predicate"]
    assert (p["plan"]["prompts"], p["replaced"]) == ("text", {"lost": 0, "refused": 0})
    assert p["sampler"]["device"].items() >= {"speculates": "yes", "retries": "3", "timeout": "120 s"}.items()
    assert cli.run(["status", str(tmp_path / "pieces")]) == Exit.OK
    assert f"tokens    {p['tokens']:,} of {p['tokens']:,}" in capsys.readouterr().out


SLOW = ("slot-seed", "shared-seed")  # replay in four arrangements


@pytest.mark.parametrize(
    "fault", [pytest.param(fault, marks=pytest.mark.soak) if fault in SLOW else fault for fault in CAUGHT]
)
def test_a_fault_is_caught_by_its_check(fault: str, request: pytest.FixtureRequest) -> None:
    condition, check = CAUGHT[fault]
    assert outcomes(FAULTS[fault].runner, {condition}, request.node.nodeid)[check] == "fail"


def test_every_fault_has_its_check() -> None:
    assert CAUGHT.keys() == FAULTS.keys()
