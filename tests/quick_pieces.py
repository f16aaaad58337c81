"""Stands in for the slow part of a campaign on a CPU, so that pieces can be killed and run again often: a module of
tests, and a script that runs pp3 with it.

What the kernels show in Triton's interpreter takes most of a small campaign's time and has tests of its own; here it
is what a whole receipt must hold of it.
"""

import sys
from typing import Any

from pp3.harness import cli, qualify
from pp3.harness.backends import Backend
from pp3.harness.campaign import of_document
from pp3.harness.evidence import kernels
from pp3.harness.operations import trial, where
from pp3.harness.operations.engines import Engine, serial
from pp3.harness.shards import count


def kernel_evidence(part: str, device: Backend, document: dict[str, Any], seed: bytes) -> list[dict[str, Any]]:
    """One part of what is shown of the kernels, by hand."""
    rows: list[dict[str, Any]] = [
        {"failedRows": 0, "first": "", "id": name, "mismatches": 0, "rows": rows}
        for name, rows in kernels.expected_bits(of_document(document, "a test"), device is Backend.CUDA)
    ]
    gpu = {name: "by hand" for name in kernels.COMPILED} if device is Backend.CUDA else {}
    found: dict[str, list[dict[str, Any]]] = {
        "conform": [
            {"file": name, "passed": total, "sha256": sha256, "total": total}
            for name, sha256, total in kernels.expected_answers()
        ],
        "identity": [{"backend": device.value, **gpu}],
        "proposal": [row for row in rows if row["id"].startswith("propose/")],
        "requests": [row for row in rows if row["id"].startswith("requests/")],
        "verify": [row for row in rows if row["id"].startswith("verify/")],
    }
    return found[part]


def in_this_process(apart: bool = True) -> Engine:
    """Every piece where it is handed over."""
    return serial(apart=False)


def install(patch: Any = setattr) -> None:
    """Put the stand-ins in place."""
    patch(count, "kernel_evidence", kernel_evidence)
    patch(where, "serial", in_this_process)
    for module in (qualify, trial):
        patch(module, "page_of", lambda statement, written, folder: None)


if __name__ == "__main__":
    install()
    sys.exit(cli.run(sys.argv[1:]))
