"""What a run was made of: the digest of every source that determined its numbers, and an allow-listed environment.

Sources are found by following `pp3` imports, written anywhere in a file, from the modules that run and judge. Names are
import-relative, so a checkout, a copy and a wheel give equal digests. No host, user, path or command line.
"""

import ast
import hashlib
import importlib.metadata
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

import pp3

CAMPAIGN = ("pp3.harness.run", "pp3.harness.verdict", "pp3.harness.shards.count", "pp3.harness.shards.join")
TRIAL = ("pp3.harness.trial.run", "pp3.harness.trial.judge", "pp3.harness.samplers.tensors")
ENGINE = ("pp3.harness.engine.run", "pp3.harness.engine.judge")
ROOTS = {  # by what `kind_of` says of a receipt
    "qualify": CAMPAIGN,
    "wire": (*CAMPAIGN, "pp3.harness.transport.run", "pp3.harness.transport.verdict"),
    "exhaustive": ("pp3.harness.exact.suite",),
    "oracle": ("pp3.harness.exact.oracle",),
    "probe": ("pp3.harness.probe.run", "pp3.harness.probe.figures"),
    "calibration": ("pp3.harness.calibrate.run", "pp3.harness.calibrate.judge"),
    "trial": TRIAL,
    "engine": (*ENGINE, "pp3.harness.engine.completions"),
    "engine-pp3-reference": (*ENGINE, "pp3.harness.engine.reference"),
    "engine-transformers": (*ENGINE, "pp3.harness.engine.transformers_engine"),
    "trial-image": (*TRIAL, "pp3.harness.image.load"),
    "trial-overlay": (
        *TRIAL,
        "pp3.harness.overlay.qualify",
        "pp3.harness.overlay.judge",
        "pp3.harness.overlay.over_wire",
        "pp3.harness.transport.proxy_process",
    ),
}
TREE = Path(pp3.__file__).parent.parent
PACKAGES = ("numpy", "scipy", "msgspec", "torch", "triton")
VARIABLES = ("TRITON_INTERPRET", "TRITON_DEFAULT_FP_FUSION", "CUBLAS_WORKSPACE_CONFIG", "PYTORCH_CUDA_ALLOC_CONF")


def kind_of(predicate: dict[str, Any]) -> str:
    """Which roots the sources of a receipt are found from.

    A trial that names its image binds what loaded it too, one of overlays everything on their path, an engine its
    adapter.
    """
    kind = str(predicate["kind"])
    if predicate.get("overlay"):
        return "trial-overlay"
    if kind == "engine":
        own = f"engine-{predicate['sampler']['name']}"
        return own if own in ROOTS else kind
    return "trial-image" if kind == "trial" and predicate["sampler"].get("image") else kind


def sources(kind: str, tree: Path = TREE) -> list[dict[str, Any]]:
    """in-toto subjects: each source file of a tree that a kind of receipt binds by name and SHA-256, sorted by name."""
    return [
        {"digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}, "name": name}
        for name, path in sorted(source_files(kind, tree).items())
    ]


def source_files(kind: str, tree: Path = TREE) -> dict[str, Path]:
    """Import-relative name to file of every pp3 module reachable from a kind's roots; nothing is imported."""
    found: dict[str, Path] = {}
    pending, seen = list(ROOTS[kind]), set[str]()
    while pending:
        module = pending.pop()
        if module in seen:
            continue
        seen.add(module)
        path = _file_of(module, tree)
        if path is None:
            continue
        name = "/".join(module.split(".")) + ("/__init__.py" if path.name == "__init__.py" else ".py")
        found[name] = path
        pending += _imports(path.read_bytes())
        pending += [module.rpartition(".")[0]] if "." in module else []
    return found


def stale(kind: str, subjects: list[dict[str, Any]], tree: Path) -> list[str]:
    """Names whose file in a tree differs from the bound one, is missing, or is bound there and not in the receipt."""
    bound = {subject["name"]: subject["digest"]["sha256"] for subject in subjects}
    there = {subject["name"]: subject["digest"]["sha256"] for subject in sources(kind, tree)}
    return sorted(name for name in bound.keys() | there.keys() if bound.get(name) != there.get(name))


def environment() -> dict[str, Any]:
    """Versions and the variables that can change a number; nothing that names a person or a machine."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "absent"
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "versions": versions,
    }


def _file_of(module: str, tree: Path) -> Path | None:
    """A module's file in a checkout, a copy without links, or a folder that holds the package."""
    parts = module.split(".")
    for base in (tree.joinpath(*parts), tree.joinpath(*parts[1:])):
        for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if path.is_file() and (len(parts) > 1 or base.name == "pp3"):
                return path
    return None


@cache
def _imports(content: bytes) -> tuple[str, ...]:
    """pp3 modules that a file imports, for more than its types; `from pp3.x import y` names both pp3.x and pp3.x.y."""
    modules = []
    pending: list[ast.AST] = [ast.parse(content)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return tuple(module for module in modules if module.split(".")[0] == "pp3")
