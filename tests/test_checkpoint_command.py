"""`pp3 checkpoint` with `--gguf`: the file that llama.cpp reads, beside the checkpoint of the same tensors."""

import hashlib
from pathlib import Path

import pytest

from pp3.harness import cli
from pp3.harness.engine.checkpoint_command import gguf_of
from pp3.harness.errors import Exit

MAGIC = b"GGUF\x03\x00\x00\x00"  # version 3, little-endian


@pytest.mark.parametrize("role", ["target", "draft"])
def test_gguf_is_written_beside_the_checkpoint(role: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its digest on the last line. The two roles have tensors of their own."""
    out, gguf = tmp_path / "model", tmp_path / "model.gguf"
    more = ["--draft"] if role == "draft" else []
    assert cli.run(["checkpoint", "chain-64", "--out", str(out), "--gguf", str(gguf), *more]) == Exit.OK
    content = gguf.read_bytes()
    assert content.startswith(MAGIC)
    assert content == gguf_of("chain-64", role)
    other = {"target": "draft", "draft": "target"}[role]
    assert content != gguf_of("chain-64", other)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split() == ["sha256", hashlib.sha256(content).hexdigest(), "model.gguf"]
    assert (out / "model.safetensors").is_file()


def test_a_file_that_is_there_stays_and_no_checkpoint_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"mine")
    out = tmp_path / "model"
    assert cli.run(["checkpoint", "chain-64", "--out", str(out), "--gguf", str(gguf)]) == Exit.USAGE
    assert f"--gguf {gguf} exists already; give another file" in capsys.readouterr().err
    assert gguf.read_bytes() == b"mine"
    assert not out.exists()
