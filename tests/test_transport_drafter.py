"""The drafter: greedy and by tickets, on one rank and on two, bit for bit what the whole row gives."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from drafted_rows import DEPTH, INF, ROWS, TAU, case_of, check, expected

from pp3.harness.errors import CampaignError
from pp3.harness.transport import admission, hello
from pp3.harness.transport.admission import WORKER_SWITCH, Admission, admit_drafter
from pp3.harness.transport.drafter import Drafter, Exchange, MarkovHead, Requests, UnguardedDrafter, candidates
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.ranks import Alone, mirrored
from pp3.kernels.reference import FAILED, OK, SUPPORT

HERE = Path(__file__).parent
SCRIPT = HERE / "two_ranks.py"
SWITCHES = ("DSPARK_SAMPLED_TOP32", "VLLM_DSPARK_SAMPLED_TOP32")


def admitted(depth: int) -> Admission:
    """Leave for a drafter's session of this depth."""
    mine = hello.Hello(mode=Mode.SAMPLED, target=bytes(32), draft=bytes(32), markov=bytes(32))
    return admit_drafter(mine, hello.encode(mine, bytes(16)), depth, {WORKER_SWITCH: "1"})


def of_an_engine(depth: int) -> Admission:
    """Leave to take drafts, not to make them."""
    engine = admission.Engine(
        sampler_marker=admission.SAMPLER_MARKER, runner_marker=admission.RUNNER_MARKER, depths=(depth,)
    )
    return admission.admit(engine, {admission.ENGINE_SWITCH: "1"})


CASES = [  # vocabulary, dtype
    (131, torch.float32),  # shards of 65 and 66
    (64, torch.float16),  # every token is a candidate
    (63, torch.bfloat16),  # shards smaller than a support
]
FAIL = ("empty", "nan", "inf", "late-nan")


def head_of(case: dict[str, Any]) -> MarkovHead:
    """The head of a case, whole."""
    return MarkovHead(base=case["base"], bias=case["bias"], context_of=case["context_of"])


def requests_of(case: dict[str, Any]) -> Requests:
    """The requests of a case."""
    return Requests(**{name: case[name] for name in ("anchor", "sampled", "keys", "rounds", "positions")})


def test_one_rank(rng: np.random.Generator) -> None:
    case = case_of(130, torch.bfloat16, rng)
    drafter, head = Drafter(Alone()), head_of(case)
    with np.errstate(all="ignore"):  # in the interpreter masked lanes are NumPy's
        drafts = drafter.draft_sampled(admitted(DEPTH), head, requests_of(case), TAU)._asdict()
    found = {f"{exchange}/{name}": value for exchange in Exchange for name, value in drafts.items()}
    check(case, found | {"greedy": drafter.draft(head, case["anchor"])})
    status = expected(case).status[:, 0]
    assert [kind for kind, one in zip(np.repeat(ROWS, 2), status, strict=True) if one == FAILED] == list(
        np.repeat(FAIL, 2)
    )


def test_drafts_are_conditioned_on_the_one_before(rng: np.random.Generator) -> None:
    case = case_of(130, torch.bfloat16, rng)
    case["bias"] = case["bias"] * 0
    flat = expected(case)
    case["bias"][2] += 8 * (torch.arange(130) % 7 == 3)
    assert (expected(case).token[:, 1:] != flat.token[:, 1:]).any()


def run_ranks(folder: Path, cases: list[dict[str, Any]], device: str) -> list[list[dict[str, torch.Tensor]]]:
    """Two processes over the same rows; what each found, by case."""
    torch.save(cases, folder / "rows.pt")
    command = [sys.executable, "-P", str(SCRIPT)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parent)}
    ranks = [subprocess.Popen([*command, str(rank), str(folder), device], env=environment) for rank in range(2)]
    try:
        assert [process.wait(timeout=300) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
    return [torch.load(folder / f"rank-{rank}.pt") for rank in range(2)]


def as_threads(cases: list[dict[str, Any]], device: torch.device) -> list[list[dict[str, torch.Tensor]]]:
    """Two threads over the same rows."""
    spec = importlib.util.spec_from_file_location("two_ranks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: list[list[dict[str, torch.Tensor]]] = module.as_threads(cases, device)
    return found


def judge_ranks(cases: list[dict[str, Any]], ranks: list[list[dict[str, torch.Tensor]]]) -> None:
    """Each rank against the whole row, the ranks against each other, and their buffers against the tickets."""
    for case, leader, peer in zip(cases, *ranks, strict=True):
        check(case, leader)
        assert leader.keys() == peer.keys()
        for name, value in leader.items():
            assert torch.equal(value, peer[name]), name
        want, vocab = expected(case), case["base"].shape[2]
        assert (leader["judged"].numpy() == want.status[:, 0]).all()
        dense = np.zeros((len(want.status), DEPTH, vocab), np.float32)
        np.put_along_axis(dense, want.ids.astype(np.int64), (want.tickets / 2.0**24).astype(np.float32), axis=2)
        held = leader["q"].numpy()
        assert (held[: len(dense)][::-1] == dense).all()
        assert not held[len(dense) :].any()
        assert (leader["valid"].numpy()[: len(dense)][::-1] == (want.status[:, 0] == OK)).all()


def test_two_ranks(tmp_path: Path, rng: np.random.Generator) -> None:
    cases = [case_of(vocab, dtype, rng) for vocab, dtype in CASES]
    judge_ranks(cases, run_ranks(tmp_path, cases, "cpu"))


@pytest.mark.parametrize(("vocab", "first"), [(32, 0), (65, 7), (4097, 100)])
def test_candidates(vocab: int, first: int, rng: np.random.Generator) -> None:
    rows = np.concatenate([rng.integers(0, 4, (3, vocab)), rng.normal(size=(3, vocab))]).astype(np.float32)
    rows[0, vocab // 2] = -0.0
    rows[1, 1:] = -INF
    rows[2, [0, vocab - 1]] = np.nan
    value, ids = candidates(torch.tensor(rows), first, SUPPORT)
    order = np.argsort(-np.where(np.isnan(rows), np.inf, rows), axis=1, kind="stable")[:, :SUPPORT]
    want = np.sort(order, axis=1)
    assert (ids.numpy() == want + first).all()
    assert (value.numpy().view(np.uint32) == np.take_along_axis(rows, want, axis=1).view(np.uint32)).all()


def test_admission(rng: np.random.Generator) -> None:
    case = case_of(64, torch.bfloat16, rng)
    drafter, head, asked = Drafter(Alone()), head_of(case), requests_of(case)
    for what, said in (
        (None, "given was NoneType, which is none"),
        (SimpleNamespace(depth=4, side="drafter"), "given was SimpleNamespace, which is none"),
        (of_an_engine(4), "given was that of the engine"),
    ):
        with pytest.raises(CampaignError, match=rf"need an admission of the drafter; {said}"):
            drafter.draft_sampled(what, head, asked, TAU)  # type: ignore[arg-type]  # the point
    with pytest.raises(CampaignError, match=r"depth 4; the session was admitted with 5"):
        drafter.draft_sampled(admitted(5), head, asked, TAU)


def test_only_a_test_surface_draws_without_an_admission() -> None:
    """Marked as such; the drafter itself has no other method that draws."""
    assert UnguardedDrafter.TEST_SURFACE
    assert not hasattr(Drafter, "TEST_SURFACE")
    assert {name for name in vars(Drafter) if not name.startswith("_")} == {"draft", "draft_sampled"}


def test_shards_are_checked() -> None:
    base, context_of = torch.zeros(2, 3, 20), torch.zeros(40, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"bias \(1, 20\) for 20 columns from 21 on of a vocabulary of 40"):
        MarkovHead(base=base, bias=torch.zeros(1, 20), context_of=context_of, first=21)
    with pytest.raises(ValueError, match=r"bias \(1, 21\) for 20 columns"):
        MarkovHead(base=base, bias=torch.zeros(1, 21), context_of=context_of)
    part = MarkovHead(base=base, bias=torch.zeros(1, 20), context_of=context_of)
    with pytest.raises(ValueError, match=r"one rank holds 20 columns of 40"):
        Drafter(Alone()).draft(part, torch.zeros(2, dtype=torch.int32))


def test_what_is_mirrored_is_four_bytes_wide() -> None:
    class Pretend(Alone):
        size = 2

    with pytest.raises(ValueError, match=r"torch.float64 has 8 bytes an element; want 4"):
        mirrored(Pretend(), [torch.zeros(1, dtype=torch.float64)])


def test_switches_leave_draft_alone(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, tmp_path: Path) -> None:
    """The same bits whatever the switches say, in a process that comes to hold no kernel."""
    case = case_of(130, torch.bfloat16, rng)
    drafter, head = Drafter(Alone()), head_of(case)
    torch.save(case, tmp_path / "case.pt")
    script = (
        "import sys, torch\n"
        "from pp3.harness.transport.drafter import Drafter, MarkovHead\n"
        "from pp3.harness.transport.ranks import Alone\n"
        f"case = torch.load({str(tmp_path / 'case.pt')!r})\n"
        "head = MarkovHead(**{name: case[name] for name in ('base', 'bias', 'context_of')})\n"
        f"torch.save(Drafter(Alone()).draft(head, case['anchor']), {str(tmp_path / 'tokens.pt')!r})\n"
        "print(sorted(name for name in sys.modules if name.split('.')[0] == 'triton' or 'pp3.kernels' in name))\n"
    )
    for switch in SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    without = drafter.draft(head, case["anchor"])
    for switch in SWITCHES:
        monkeypatch.setenv(switch, "1")
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent))
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert torch.equal(torch.load(tmp_path / "tokens.pt"), without)
    assert torch.equal(drafter.draft(head, case["anchor"]), without)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")  # that it is a prototype
def test_graph_capture(rng: np.random.Generator) -> None:
    """Both methods replay over new inputs, without a host synchronisation, to the bits of an eager run."""
    first, second = (case_of(130, torch.bfloat16, rng) for _ in range(2))
    for case in (first, second):
        case |= {name: value.cuda() for name, value in case.items() if isinstance(value, torch.Tensor)}
    second |= {"bias": first["bias"], "context_of": first["context_of"]}
    drafter, head, asked = Drafter(Alone()), head_of(first), requests_of(first)
    drafter.draft_sampled(admitted(DEPTH), head, asked, TAU)  # compile
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.graph(graph):
            tokens = drafter.draft(head, asked.anchor)
            drafts = drafter.draft_sampled(admitted(DEPTH), head, asked, TAU)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    head.base.copy_(second["base"])
    for name in ("anchor", "sampled", "keys", "rounds", "positions"):
        getattr(asked, name).copy_(second[name])
    graph.replay()
    host = {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in second.items()}
    check(
        host,
        {"greedy": tokens.cpu()}
        | {f"{way}/{name}": value.cpu() for way in Exchange for name, value in drafts._asdict().items()},
    )


@pytest.mark.gpu
def test_two_ranks_on_gpus(tmp_path: Path, rng: np.random.Generator) -> None:
    """Two processes and NCCL over two GPUs; where there is one, two threads over it."""
    cases = [case_of(vocab, dtype, rng) for vocab, dtype in [*CASES, (12_301, torch.bfloat16)]]
    two = torch.cuda.device_count() > 1
    judge_ranks(cases, run_ranks(tmp_path, cases, "cuda") if two else as_threads(cases, torch.device("cuda")))
