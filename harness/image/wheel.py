"""A pinned wheel of another project, brought by pip from wherever it is configured to; it refuses any other bytes.

Always the wheel for CPython 3.11 on x86_64, whatever this machine is: only Python files are kept of it.
"""

import subprocess
import sys
from pathlib import Path

from pp3.harness.errors import Exit, PP3Error

PIP = ["-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check", "--require-hashes"]
WHEEL = ["--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"]
STDERR = 2  # what pip says is progress, not data


def bring(name: str, version: str, sha256: str, glibc: str, scratch: Path, or_else: str = "") -> Path:
    """The wheel, in a folder below `scratch`. PP3Error (69) if pip cannot bring it; `or_else` is another way out."""
    requirements = scratch / "requirements.txt"
    requirements.write_text(f"{name}=={version} --hash=sha256:{sha256}\n", "utf-8")
    platform = ["--platform", f"manylinux_{glibc}_x86_64"]
    command = [sys.executable, *PIP, *WHEEL, *platform, "-r", str(requirements), "-d", str(scratch / "wheel")]
    done = subprocess.run(command, stdout=STDERR, check=False)
    wheels = [*(scratch / "wheel").glob("*.whl")]
    if done.returncode or len(wheels) != 1:
        raise PP3Error(
            f"pip did not bring the wheel of {name} {version} with sha256 {sha256} (exit {done.returncode}, its reason"
            f" is above): check its index and the network{or_else}",
            Exit.UNAVAILABLE,
        )
    return wheels[0]
