"""The kernels compiled for a GPU that is not there: cubins, and loads that fill no lane with another value."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pp3.kernels import groups, proposal, rejection, row_sums, search, selector, verifier, walk

WIDE = ("keys_ptr", "candidates_ptr", "mass_ptr", "best_ptr", "key_ptr", "round_ptr", "position_ptr")
POINTERS = dict.fromkeys(WIDE, "*i64")
SCALARS = {"request_stride": "i64", "tau": "fp32"}
TILES = {proposal: proposal.TILE, rejection: verifier.TILE, row_sums: verifier.TILE}
SIZES = {"ROWS": 1, "COLUMNS": 8, "TILES": 16, "K": 32, "CHUNK": verifier.CHUNK, "DEPENDENT": True, "SORTS": True}
SIZES |= {"AT_ONCE": 1, "GROUPS": groups.GROUPS, "KEPT": groups.KEPT, "WARPS": groups.WARPS, "LANES": groups.LANES}


def build(module, kernel, width=None, sizes={}, **read):
    types, constants = {}, {}
    for place, name in enumerate(kernel.arg_names):
        if name.isupper():
            chosen = SIZES | {"TILE": TILES.get(module), "WIDTH": width} | sizes
            types[name], constants[place,] = "constexpr", chosen[name]
        elif name.endswith("_ptr"):
            types[name] = (POINTERS | read).get(name, "*i32")
        else:
            types[name] = SCALARS.get(name, "i32")
    source = ASTSource(fn=kernel, signature=types, constexprs=constants)
    cubin = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8}).asm["cubin"]
    print(kernel.__name__, cubin[:4] == bytes([127]) + b"ELF", len(cubin))


for dtype in ("bf16", "fp16", "fp32"):
    build(proposal, proposal._tile_candidates, logits_ptr="*" + dtype)
    whole = {"TILE": 8192, "TILE_BITS": 13, "VALUE_BITS": {"bf16": 16, "fp16": 19, "fp32": 32}[dtype]}
    build(search, search.largest_of_rows, sizes=whole, logits_ptr="*" + dtype)
for width in (32, 128):  # one tile, and several to merge
    build(proposal, proposal._allocate_and_draw, width)
for dtype, infinity in groups.INFINITY.items():
    main, extra = groups.sizes(163_840)
    row = {"MAIN": main, "EXTRA": extra, "INFINITY": infinity, "HALVES": infinity == 0x7C00}
    for kernel in (groups.group_bests, selector.select_and_draw):
        build(selector, kernel, sizes=row, logits_ptr="*i16", best_ptr="*i32")
build(walk, walk.judge_and_emit, sizes={"TILE": walk.TILE, "TILES": 128}, probs_ptr="*fp32")
build(row_sums, row_sums.tile_masses, probs_ptr="*fp32")
build(rejection, rejection.walk_and_emit, probs_ptr="*fp32")
"""


def test_every_kernel_compiles_for_sm_90_without_a_gpu(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    added = {"PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        env=inherited | added | {"CUDA_VISIBLE_DEVICES": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    kernels = ["_tile_candidates", "largest_of_rows"] * 3 + ["_allocate_and_draw"] * 2
    kernels += ["group_bests", "select_and_draw"] * 2 + ["judge_and_emit", "tile_masses", "walk_and_emit"]
    assert [name for name, *_ in found] == kernels
    assert all(elf == "True" and int(size) > 1000 for _, elf, size in found)


FILLED = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from pp3.kernels import groups


def build(kernel, types, constants):
    places = {name: place for place, name in enumerate(kernel.arg_names)}
    types = dict.fromkeys(constants, "constexpr") | types
    source = ASTSource(
        fn=kernel,
        signature={name: types[name] for name in kernel.arg_names},
        constexprs={(places[name],): value for name, value in constants.items()},
        attrs={(places[name],): [["tt.divisibility", 16]] for name in types if name not in constants},
    )
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4}).asm["ptx"]
    print(triton.__version__, kernel.__name__, ptx.count("ld.global.v4"), ptx.count("0xffffffffffff"))


main, extra = groups.sizes(129_280)  # ends inside a turn of the groups: some entries lie past the row
chosen = {"INFINITY": 0x7F80, "MAIN": main, "EXTRA": extra, "KEPT": groups.KEPT, "AT_ONCE": 1, "WARPS": groups.WARPS}
ours = {"logits_ptr": "*i16", "row_stride": "i32", "vocab": "i32", "best_ptr": "*i32"}
build(groups.group_bests, ours, chosen | {"LANES": groups.LANES, "DEPENDENT": True})
"""
NEGATIVE = """

@triton.jit
def planted(x_ptr, y_ptr, n):
    i = tl.arange(0, 1024)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=-128))


build(planted, {"x_ptr": "*i16", "y_ptr": "*i16", "n": "i32"}, {})
"""


def test_a_load_of_16_bytes_fills_no_lane_with_another_value(tmp_path: Path) -> None:
    """Triton 3.6 extends the sign of a negative 16-bit `other` over the value beside it: NaN, so that a row fails."""
    script = tmp_path / "filled.py"  # a jitted function is read from its file
    script.write_text(FILLED + NEGATIVE, "utf-8")
    inherited = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    added = {"PYTHONPATH": path, "TRITON_CACHE_DIR": str(tmp_path / "cache"), "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=inherited | added | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (version, _, wide, spoilt), (_, _, _, planted) = (line.split() for line in done.stdout.splitlines())
    assert int(wide) >= 1
    assert int(spoilt) == 0
    assert (int(planted) > 0) == version.startswith("3.6.")
