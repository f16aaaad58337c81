"""A campaign that is killed at any instant goes on, and ends with the same counts, byte for byte."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import canonical
from pp3.harness.errors import Exit

ROOT = Path(__file__).resolve().parents[1]
CAMPAIGN = 'targets = ["sparse-tail"]\nrequests = 97\npaired = 5\ndepths = [4]\n'
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a fork has one thread only
OF_RUN = ("run", "execution", "environment", "timings")
# One process loads everything once; each campaign runs in a fork of it, which is killed and started again until it
# ends by itself. An instant is a fraction of the time that a whole run takes, so that all of it is met.
ROUNDS = """
import json, os, random, select, signal, sys, time
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import quick_pieces
from pp3.harness import cli

quick_pieces.install()
root, wanted, seed = Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
random.seed(seed)
os.chdir(root)


def start(folder, resume):
    child = os.fork()
    if child:
        return child
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    first = ["--campaign", str(root / "small.toml"), "--counter", "3"]
    given = ["--dir", str(folder), "--out", str(folder.parent / (folder.name + "-out"))]
    os._exit(cli.run(["qualify", *given, *(["--resume"] if resume else first)]))


def ended(child, seconds):
    end = os.pidfd_open(child)
    gone = bool(select.select([end], [], [], seconds)[0])
    os.close(end)
    return gone


sys.stdout = open(os.devnull, "w")
given = ["--dir", str(root / "whole"), "--out", str(root / "whole-out"), "--campaign", str(root / "small.toml")]
code = cli.run(["qualify", *given, "--counter", "3"])  # here, so that each fork has what is computed once
sys.stdout = sys.__stdout__
before = time.monotonic()
os.waitpid(start(root / "timed", False), 0)
whole = time.monotonic() - before
kills, campaigns, at = 0, [], {}
while kills < wanted:
    folder = root / f"campaign-{len(campaigns)}"
    killed, resume = 0, False
    while True:
        child = start(folder, resume)
        if kills < wanted and not ended(child, random.random() * whole * random.choice((0.4, 1.0))):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            kills, killed = kills + 1, killed + 1
            there = len(list((folder / "parts").glob("[!.]*"))) if (folder / "parts").is_dir() else -1
            at[there] = at.get(there, 0) + 1
            resume = (folder / "campaign.json").is_file()
            continue
        last = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        break
    campaigns.append([folder.name, last, killed])
print(json.dumps({"code": code, "campaigns": campaigns, "kills": kills, "at": at, "seconds": whole}))
"""


def killed(folder: Path, kills: int, seed: str) -> dict[str, Any]:
    """Run campaigns with so many kills in all; what became of them."""
    (folder / "small.toml").write_text(CAMPAIGN)
    done = subprocess.run(
        [sys.executable, "-P", "-c", ROUNDS, str(Path(__file__).parent), str(folder), str(kills), seed],
        env=os.environ | ALONE | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60 + 10 * kills,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def counted(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Of the receipt in a folder: everything but when and how it was run, in canonical bytes; and how."""
    [path] = folder.glob("2*.json")
    predicate = canonical.decode(path.read_bytes())["predicate"]
    rest = {key: value for key, value in predicate.items() if key not in OF_RUN}
    return canonical.encode(rest), predicate["execution"]


def check(folder: Path, kills: int, seed: str) -> dict[str, Any]:
    """Kill, then compare every receipt with that of the run that nobody killed."""
    found = killed(folder, kills, seed)
    whole, _ = counted(folder / "whole-out")
    assert found["code"] == Exit.INCONCLUSIVE  # of a campaign of 97 requests
    assert found["kills"] == kills
    for name, code, times in found["campaigns"]:
        assert code == Exit.INCONCLUSIVE
        mine, execution = counted(folder / f"{name}-out")
        assert mine == whole
        assert 1 <= execution["attempts"] <= times + 1
        parts = {path.name: path.read_bytes() for path in (folder / name / "parts").glob("[!.]*")}
        assert len(parts) == execution["pieces"]
        lines = (folder / name / "events.jsonl").read_text("utf-8").splitlines()
        assert [json.loads(line)["event"] for line in lines].count("done") >= 1
    return found


def test_killed_at_ten_random_instants(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """SIGKILL; the counts are those of a run that nobody killed, and each attempt is recorded."""
    check(tmp_path, 10, request.node.nodeid)


@pytest.mark.soak
def test_killed_at_two_hundred_random_instants(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Of which some are before the first part, some between two, and some after the last."""
    found = check(tmp_path, 200, request.node.nodeid)
    assert len(found["at"]) > 5
