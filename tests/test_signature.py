"""Signatures by SSH keys: of exactly these bytes, by a signer that the reviewer allows, and by nobody else."""

import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pp3.harness import campaign as campaigns
from pp3.harness import cli
from pp3.harness.campaign import Campaign
from pp3.harness.errors import Exit
from pp3.harness.evidence import signature

ANNA, BERT = "anna@example.invalid", "bert@example.invalid"


@pytest.fixture(scope="module")
def made(receipt_of: Callable[[Campaign, Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real receipt."""
    small = {"targets": ["disjoint"], "requests": 200, "paired": 20, "depths": [4], "batch_sizes": [1]}
    return receipt_of(campaigns.of_document(small, "test"), tmp_path_factory.mktemp("made"))


@pytest.fixture
def receipt(made: Path, tmp_path: Path) -> Path:
    """A copy of it in a folder of its own."""
    (tmp_path / "shelf").mkdir()
    return Path(shutil.copy(made, tmp_path / "shelf"))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Keys made for this run alone."""
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed")
    folder = tmp_path_factory.mktemp("keys")
    for name in (ANNA, BERT):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
        subprocess.run(make, check=True)
    return {name: folder / name for name in (ANNA, BERT)}


@pytest.fixture
def allowed(keys: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """A file of allowed signers."""

    def allowed(*names: str, options: str = "") -> Path:
        lines = [f"{name} {options}{keys[name].with_suffix(keys[name].suffix + '.pub').read_text()}" for name in names]
        path = tmp_path / "allowed_signers"
        path.write_text("".join(lines), "utf-8")
        return path

    return allowed


def sign(receipt: Path, key: Path) -> int:
    """`pp3 sign`; its exit code."""
    return cli.run(["sign", str(receipt), "--key", str(key)])


def verify(receipt: Path, *options: str | Path) -> int:
    """`pp3 verify`; its exit code."""
    return cli.run(["verify", str(receipt), *map(str, options)])


def test_a_signed_receipt_says_by_whom(
    receipt: Path, keys: dict[str, Path], allowed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside it, read-only, and no name that ends in .json; without --key it is not looked at, which is said."""
    before = receipt.read_bytes()
    assert sign(receipt, keys[ANNA]) == Exit.OK
    beside = Path(capsys.readouterr().out.strip())
    assert beside == receipt.with_name(f"{receipt.name}.sig")
    assert stat.S_IMODE(beside.stat().st_mode) == 0o444
    assert receipt.read_bytes() == before
    assert verify(receipt, "--key", allowed(BERT, ANNA)) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(line.endswith(f"ok   signature: by {ANNA}") for line in lines)
    assert " assurance=signed " in lines[-1]
    assert verify(receipt) == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    assert any(f"skip signature: no --key given, {beside.name} was not looked at" in line for line in lines)
    assert " assurance=self-attested " in lines[-1]


def test_one_signer_may_be_asked_for(receipt: Path, keys: dict[str, Path], allowed: Callable[..., Path]) -> None:
    """Among those allowed."""
    assert sign(receipt, keys[ANNA]) == Exit.OK
    both = allowed(ANNA, BERT)
    assert verify(receipt, "--key", both, "--signer", ANNA) == Exit.OK
    assert verify(receipt, "--key", both, "--signer", BERT) == Exit.NEGATIVE


def failed_at_the_signature(capsys: pytest.CaptureFixture[str]) -> bool:
    """By the last line."""
    return capsys.readouterr().out.splitlines()[-1].startswith("NOT VERIFIED at signature: ")


def test_no_signature_is_no_signature(
    receipt: Path, allowed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Asked for and missing is a failure, not a skip."""
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.NEGATIVE
    assert failed_at_the_signature(capsys)


def test_a_signer_who_is_not_allowed_is_refused(
    receipt: Path, keys: dict[str, Path], allowed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the signature says of itself; also by no signer at all."""
    assert sign(receipt, keys[ANNA]) == Exit.OK
    for names in ((BERT,), ()):
        capsys.readouterr()
        assert verify(receipt, "--key", allowed(*names)) == Exit.NEGATIVE
        assert failed_at_the_signature(capsys)


def test_a_key_for_other_things_is_refused(
    receipt: Path, keys: dict[str, Path], allowed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Allowed for commits alone; and a signature of these bytes made for something else."""
    assert sign(receipt, keys[ANNA]) == Exit.OK
    assert verify(receipt, "--key", allowed(ANNA, options='namespaces="git" ')) == Exit.NEGATIVE
    capsys.readouterr()
    beside = signature.beside(receipt)
    beside.unlink()
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(keys[ANNA]), "-n", "git", str(receipt)]
    subprocess.run(command, check=True, capture_output=True)
    assert beside.is_file()
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.NEGATIVE
    assert failed_at_the_signature(capsys)


def test_the_format_is_that_of_ssh(receipt: Path, keys: dict[str, Path], allowed: Callable[..., Path]) -> None:
    """What ssh-keygen itself signs verifies, and what is signed here ssh-keygen itself verifies."""
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(keys[ANNA]), "-n", "pp3-receipt", str(receipt)]
    subprocess.run(command, check=True, capture_output=True)
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.OK
    signature.beside(receipt).unlink()
    assert sign(receipt, keys[ANNA]) == Exit.OK
    given = ["-f", str(allowed(ANNA)), "-I", ANNA, "-n", "pp3-receipt", "-s", str(signature.beside(receipt))]
    with receipt.open("rb") as file:
        subprocess.run(["ssh-keygen", "-Y", "verify", *given], stdin=file, check=True, capture_output=True)


def test_a_signature_of_another_receipt_is_refused(
    receipt: Path,
    keys: dict[str, Path],
    allowed: Callable[..., Path],
    receipt_of: Callable[[Campaign, Path], Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Moved beside this one."""
    small = {"targets": ["disjoint"], "requests": 201, "paired": 20, "depths": [4], "batch_sizes": [1]}
    other = receipt_of(campaigns.of_document(small, "test"), receipt.parent)
    assert sign(other, keys[ANNA]) == Exit.OK
    shutil.copy(signature.beside(other), signature.beside(receipt))
    capsys.readouterr()
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.NEGATIVE
    assert failed_at_the_signature(capsys)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b"-----BEGIN SSH SIGNATURE-----\nAAAA\n"], ids=len)
def test_what_is_no_signature_is_refused(
    content: bytes, receipt: Path, allowed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line."""
    signature.beside(receipt).write_bytes(content)
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.NEGATIVE
    assert failed_at_the_signature(capsys)


def test_no_signature_is_replaced(receipt: Path, keys: dict[str, Path]) -> None:
    """A second signer puts his elsewhere."""
    assert sign(receipt, keys[ANNA]) == Exit.OK
    before = signature.beside(receipt).read_bytes()
    assert sign(receipt, keys[BERT]) == Exit.USAGE
    assert signature.beside(receipt).read_bytes() == before


def test_only_what_verifies_is_signed(receipt: Path, keys: dict[str, Path]) -> None:
    """Renamed, it does not."""
    moved = receipt.rename(receipt.with_name("receipt.json"))
    assert sign(moved, keys[ANNA]) == Exit.NEGATIVE
    assert sorted(path.name for path in receipt.parent.iterdir()) == ["receipt.json"]


def test_what_is_given_must_be_there(receipt: Path, keys: dict[str, Path], tmp_path: Path) -> None:
    """Usage, exit 2: no such key, a public key, no such file of signers, a signer without one."""
    assert sign(receipt, tmp_path / "nowhere") == Exit.USAGE
    (tmp_path / "note").write_text("no key\n")
    assert sign(receipt, tmp_path / "note") == Exit.USAGE
    assert verify(receipt, "--key", tmp_path / "nowhere") == Exit.USAGE
    assert verify(receipt, "--signer", ANNA) == Exit.USAGE
    assert not signature.beside(receipt).exists()


def test_without_ssh_keygen_both_say_so(
    receipt: Path,
    keys: dict[str, Path],
    allowed: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit 69, never a skipped signature."""
    assert sign(receipt, keys[ANNA]) == Exit.OK
    monkeypatch.setenv("PATH", "")
    assert verify(receipt, "--key", allowed(ANNA)) == Exit.UNAVAILABLE
    signature.beside(receipt).unlink()
    assert sign(receipt, keys[ANNA]) == Exit.UNAVAILABLE
    assert capsys.readouterr().err.count("ssh-keygen is not installed") == 2


EXPECTED: dict[str, tuple[list[str], Exit, str]] = {
    "its sampler": (["--expect-sampler", "pp3-top32"], Exit.OK, "VERIFIED "),
    "its sampler and version": (["--expect-sampler", "pp3-top32==0.1.0"], Exit.OK, "VERIFIED "),
    "another version": (["--expect-sampler", "pp3-top32==9"], Exit.NEGATIVE, "NOT VERIFIED at expected sampler: "),
    "a part of its name": (["--expect-sampler", "pp3"], Exit.NEGATIVE, "NOT VERIFIED at expected sampler: "),
    "a digest that is not bound": (
        ["--expect-source", "0" * 64],
        Exit.NEGATIVE,
        "NOT VERIFIED at expected source: ",
    ),
    "another digest of a bound file": (
        ["--expect-source", "pp3/kernels/reference.py=" + "0" * 64],
        Exit.NEGATIVE,
        "NOT VERIFIED at expected source: ",
    ),
}


@pytest.mark.parametrize(("options", "code", "last"), EXPECTED.values(), ids=EXPECTED)
def test_the_reviewer_expects(
    options: list[str], code: Exit, last: str, receipt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sampler, a source: what is not met fails at its own step."""
    assert verify(receipt, *options) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(last)


def test_a_bound_source_may_be_expected(receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its digest, and by its name with it; several at once; no digest is usage."""
    from pp3.harness.evidence.receipt import read

    first, second = read(receipt)[1]["subject"][:2]
    name, sha256, other = first["name"], first["digest"]["sha256"], second["digest"]["sha256"]
    assert verify(receipt, "--expect-source", sha256, "--expect-source", f"{name}={sha256}") == Exit.OK
    assert capsys.readouterr().out.count("ok   expected source: ") == 2
    assert verify(receipt, "--expect-source", f"{name}={other}") == Exit.NEGATIVE
    assert verify(receipt, "--expect-source", name) == Exit.USAGE
