"""Two ranks that share a vocabulary: as processes of their own (`two_ranks.py RANK FOLDER DEVICE`), or as threads.

A process drafts the rows of FOLDER/rows.pt in every way and writes what it got to FOLDER/rank-RANK.pt.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import torch
import torch.distributed as dist

from pp3.harness.transport import hello
from pp3.harness.transport.admission import WORKER_SWITCH, admit_drafter
from pp3.harness.transport.buffers import Proposals, Sparse, q_of
from pp3.harness.transport.drafter import Drafter, Exchange, MarkovHead, Requests
from pp3.harness.transport.frame import Mode
from pp3.harness.transport.ranks import LEADER, Ranks, Two


def main(rank: int, folder: Path, kind: str) -> None:
    """Join the group, draft, write."""
    device = torch.device(f"cuda:{rank}" if kind == "cuda" else "cpu")
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    try:
        found = [drafted(case, Two(), device) for case in torch.load(folder / "rows.pt")]
    finally:
        dist.destroy_process_group()
    torch.save(found, folder / f"rank-{rank}.pt")


class Thread:
    """One of two ranks in one process, over the default stream of one device."""

    size = 2

    def __init__(self, rank: int, up: "Queue[torch.Tensor]", down: "Queue[torch.Tensor]") -> None:
        self.rank, self.up, self.down = rank, up, down

    def gather(self, part: torch.Tensor) -> list[torch.Tensor]:
        """See Ranks."""
        if self.rank == LEADER:
            return [part, self.up.get(timeout=300)]
        self.up.put(part.clone())
        return []

    def spread(self, whole: torch.Tensor) -> None:
        """See Ranks."""
        if self.rank == LEADER:
            self.down.put(whole.clone())
        else:
            whole.copy_(self.down.get(timeout=300))


def as_threads(cases: list[dict[str, Any]], device: torch.device) -> list[list[dict[str, torch.Tensor]]]:
    """What each of two threads found, by case."""
    up: Queue[torch.Tensor] = Queue()
    down: Queue[torch.Tensor] = Queue()

    def one(rank: int) -> list[dict[str, torch.Tensor]]:
        return [drafted(case, Thread(rank, up, down), device) for case in cases]

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, range(2)))


def drafted(case: dict[str, Any], ranks: Ranks, device: torch.device) -> dict[str, torch.Tensor]:
    """One case by every method, on this rank's shard, and what its buffers came to."""
    rank = ranks.rank
    rows = {name: value.to(device) for name, value in case.items() if isinstance(value, torch.Tensor)}
    head = MarkovHead(base=rows["base"], bias=rows["bias"], context_of=rows["context_of"]).shard(rank)
    asked = Requests(**{name: rows[name] for name in ("anchor", "sampled", "keys", "rounds", "positions")})
    mine = hello.Hello(mode=Mode.SAMPLED, target=bytes(32), draft=bytes(32), markov=bytes(32))
    leave = admit_drafter(mine, hello.encode(mine, bytes(16)), head.depth, {WORKER_SWITCH: "1"})
    found = {}
    for exchange in Exchange:
        drafter = Drafter(ranks, exchange)
        found["greedy"] = drafter.draft(head, rows["anchor"])
        drafts = drafter.draft_sampled(leave, head, asked, case["tau"])
        found |= {f"{exchange}/{name}": value for name, value in drafts._asdict().items()}
    n, depth = found["greedy"].shape
    slots = torch.arange(n, device=device).flip(0)
    proposals = Proposals(n + 2, depth, head.vocab, device)
    proposals.begin(slots, torch.full_like(slots, 7))
    landed = Sparse(  # what the leader says is what counts
        slots=slots,
        generation=torch.full_like(slots, 7),
        status=drafts.status if rank == 0 else torch.full_like(drafts.status, -9),
        sampled=rows["sampled"],
        tokens=drafts.token if rank == 0 else torch.full_like(drafts.token, -9),
        ids=drafts.ids if rank == 0 else torch.full_like(drafts.ids, -9),
        q=q_of(drafts.tickets) if rank == 0 else torch.full(drafts.tickets.shape, 9.0, device=device),
    )
    found["judged"] = proposals.store(landed.mirrored(ranks))
    found["q"] = proposals.q
    found["valid"] = proposals.valid
    return {name: value.cpu() for name, value in found.items()}


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
