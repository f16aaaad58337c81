"""Kernels in the interpreter of the oldest triton that PP3 takes: `make test-older-triton`.

It is put before the installed one, in a folder of its own. Two lines of its interpreter do not run under NumPy 2.4, in
no kernel of anybody's; they are mended as later versions have them, and named, so that the rest can be tested.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST = "3.6.0"
INTERPRETER = "triton/runtime/interpreter.py"
MENDED = (
    (
        "TensorHandle(np.full(1, -1, dtype=np_type), type.scalar)",
        "TensorHandle(np.array([-1]).astype(np_type), type.scalar)",
        "an unsigned number has no -1",
    ),
    ("int(self.handle.data))", "int(self.handle.data.squeeze()))", "an array of one is no scalar"),
)
FILES = ("tests/test_kernels.py", "tests/test_kernels_bits.py", "tests/test_kernels_compiled.py")
CHOSEN = (
    "test_vectors or fills_no_lane or bits_of_wide_rows or any_strides or columns_fail or column_0 or out_is_written"
)


def overlay(folder: Path) -> None:
    """Install the oldest triton into a folder, and mend its interpreter. AssertionError if that is another one."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--no-compile", "--target", str(folder), f"triton=={OLDEST}"], check=True)
    path = folder / INTERPRETER
    text = path.read_text("utf-8")
    for old, new, why in MENDED:
        assert text.count(old) == 1, f"triton {OLDEST} has {text.count(old)} times {old!r}"
        text = text.replace(old, new)
        print(f"triton {OLDEST}, its interpreter under NumPy 2.4: mended, {why}")
    path.write_text(text, "utf-8")


def main() -> int:
    """The exit code of pytest."""
    folder = Path(sys.argv[1])
    overlay(folder)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(folder), str(ROOT))), "CUDA_VISIBLE_DEVICES": ""}
    said = [sys.executable, "-P", "-c", "import triton; print('triton', triton.__version__)"]
    found = subprocess.run(said, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    print(found, flush=True)
    if found != f"triton {OLDEST}":
        return 1
    words = ["-m", "pytest", *(str(ROOT / name) for name in FILES), "-q", "-p", "no:cacheprovider", "-k", CHOSEN]
    return subprocess.run([sys.executable, "-P", *words], cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
