"""What the contract allows a sampler in this process, and what it does to torch, to forks and to interrupts."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from one_thread import one_thread
from planted_runs import POISON, REQUESTS, Planted, after, judged, right, verified

from pp3 import Batch, Emission, qualify
from pp3.harness.errors import CampaignError
from pp3.harness.trial import launches
from pp3.harness.verdict import Verdict

Run = Callable[[Batch], Any]


@pytest.fixture(autouse=True)
def _one_batch_and_one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """So that a breach comes once; threads that spin on a shared machine cost more than they bring."""
    monkeypatch.setattr(launches, "LEAST_ROWS", 1 << 20)
    with one_thread():
        yield


FINE: dict[str, Run] = {
    "int32": lambda b: right(b).int(),
    "uint8": lambda b: right(b).to(torch.uint8),
    "a column": lambda b: right(b)[:, None],
    "NumPy": lambda b: right(b).numpy(),
    "NumPy int16, strided": lambda b: np.repeat(right(b).numpy().astype(np.int16), 2)[::2],
    "an emission": lambda b: Emission(tokens=right(b)[:, None]),
    "a pair": lambda b: (right(b), None),
    "a view": lambda b: right(b).repeat(2).view(2, -1)[1],
    "zeros it filled": lambda b: torch.empty(len(b), dtype=torch.int64).copy_(right(b)),
    "the global generator": lambda b: torch.multinomial(torch.softmax(b.logits / b.temperature[:, None], 1), 1),
}


@pytest.mark.parametrize("does", FINE.values(), ids=FINE)
def test_what_the_contract_allows(does: Run) -> None:
    report = judged("plain", does)
    assert report.verdict is Verdict.PASS, str(report)


def test_columns_beyond_the_length_are_not_read() -> None:
    """They may hold anything."""
    wild = verified(
        lambda b, e: (torch.where(torch.arange(b.depth + 1) < e.num_sampled[:, None], e.tokens, POISON), e.num_sampled)
    )
    report = judged("verifier", wild, requests=8_000)
    assert report.verdict is Verdict.PASS, str(report)


def test_torch_is_left_as_it_was() -> None:
    """Its fill of fresh memory, its determinism and its global generator."""
    torch.manual_seed(11)
    before = torch.get_rng_state()
    judged("plain", after(lambda b: torch.manual_seed(5)))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_deterministic_debug_mode() == 0


def test_the_same_counter_gives_the_same_requests_and_draws() -> None:
    """The global generator's too, so that nothing is flaky; another counter gives others."""
    drawn: list[torch.Tensor] = []

    def run(batch: Batch) -> torch.Tensor:
        drawn.append(FINE["the global generator"](batch)[:, 0])
        return drawn[-1]

    for counter in (1, 1, 2):
        qualify(Planted("plain", run), targets=["rows-of-12"], requests=REQUESTS, device="cpu", counter=counter)
    assert len(drawn) == 3
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_fork_does_not_come_back_twice() -> None:
    """Else all that follows in a test suite would run twice."""
    code = (
        "import os\nimport torch\ntorch.set_num_threads(1)  # or a child waits for threads that it has not\n"
        "from pp3 import qualify\nfrom pp3.harness.samplers.torch_controls import Multinomial\n"
        "class Forks(Multinomial):\n    def run(self, batch):\n        os.fork()\n        return super().run(batch)\n"
        "print(qualify(Forks(), targets=['rows-of-12'], requests=100, device='cpu').verdict, flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "INCONCLUSIVE\n"


def test_an_interrupt_is_no_finding() -> None:
    def run(batch: Batch) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged("plain", run)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (object(), "object is no sampler: it must be an object with describe"),
        (Planted, "Planted itself is no sampler"),
        (None, "NoneType is no sampler"),
    ],
)
def test_what_is_no_sampler(thing: Any, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        qualify(thing)
