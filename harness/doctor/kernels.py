"""Whether kernels run: on a GPU compiled, else in Triton's interpreter; looked at in a process of its own."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from pp3.harness.doctor.line import Line, fine, note, problem

SECONDS = 180.0
SMI = "nvidia-smi"
INSTALL = "pip install 'pp3[kernels]'"
PATHS = re.compile(r"(?:/[^\s/'\":]+)+/")  # of an error's text, all but the last name


def look() -> dict[str, Any]:
    """What the child says; {"error": ...} if it says nothing."""
    command = [sys.executable, "-P", "-m", "pp3.harness.doctor.child"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {SECONDS:.0f} s"}
    except (OSError, ValueError, IndexError):
        return {"error": "the process that loads torch and triton died"}
    return said


def lines(said: dict[str, Any], require_gpu: bool) -> Iterator[Line]:
    """GPU and driver, and the small kernel."""
    yield _gpu(said, require_gpu)
    yield _kernel(said)


def _gpu(said: dict[str, Any], require_gpu: bool) -> Line:
    """The GPU as torch sees it, with the driver that nvidia-smi names."""
    name = "gpu"
    bad = problem if require_gpu else note
    if said.get("gpu"):
        more = f", {said['gpus']} of them" if said.get("gpus", 1) > 1 else ""
        return fine(
            name, f"{said['gpu']} ({said['capability']}){more}, driver {driver() or 'unknown'}, CUDA {said['cuda']}"
        )
    if os.environ.get("CUDA_VISIBLE_DEVICES", "unset") in ("", "-1"):
        return bad(name, "hidden by CUDA_VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES")
    if driver() and said.get("cuda") == "":
        return bad(name, f"driver {driver()}, but torch is a build for CPUs", "pip install --force-reinstall torch")
    if "error" in said:
        return bad(name, "not looked at: torch does not load", INSTALL)
    return bad(name, "none that torch sees; campaigns run on the CPU", f"{SMI}")


def driver() -> str:
    """The version of NVIDIA's driver; "" where nvidia-smi does not say it."""
    if shutil.which(SMI) is None:
        return ""
    try:
        query = [SMI, "--query-gpu=driver_version", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


def _kernel(said: dict[str, Any]) -> Line:
    """The small kernel."""
    name = "small kernel"
    if "error" in said:
        known = {"ModuleNotFoundError": INSTALL, "InterpreterError": "pip install --upgrade triton"}
        fixes = [fix for word, fix in known.items() if word in said["error"]]
        fix = fixes[0] if fixes else "python -m pp3.harness.doctor.child"
        return problem(name, PATHS.sub("", str(said["error"])), fix)
    how = "compiled and run" if said["gpu"] else "run in Triton's interpreter"
    if not said["right"]:
        return problem(name, f"{how}, and its integers are wrong", INSTALL)
    return fine(name, f"{how} in {said['seconds']:.2f} s, its integers right")
