"""A detached signature of a receipt by an SSH key: made and checked by ssh-keygen, beside the receipt as RECEIPT.sig.

Format: https://github.com/openssh/openssh-portable/blob/master/PROTOCOL.sshsig, with the namespace below, so that a
signature of anything else is none of a receipt. The bytes signed are those of the file; nothing is parsed first. Who
may sign is the reviewer's choice, a file of allowed signers (`man ssh-keygen`); a receipt or a signature never names a
key that is trusted.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from pp3.harness.errors import CampaignError, Exit, PP3Error, VerificationError
from pp3.harness.evidence.receipt import write_once

NAMESPACE = "pp3-receipt"
LIMIT_S = 120.0  # of a key that asks for a passphrase or a touch


def beside(receipt: Path) -> Path:
    """Where the signature of a receipt lies."""
    return receipt.with_name(f"{receipt.name}.sig")


def sign(receipt: Path, content: bytes, key: Path) -> Path:
    """Sign the bytes of a receipt with a private key; the file written beside it, which is never replaced.

    CampaignError if ssh-keygen will not sign with the key, PP3Error (69) without ssh-keygen, OSError as of a write.
    """
    if not key.is_file():
        raise CampaignError(f"--key {key}: no such file; give a private key of ssh-keygen")
    done = _ssh_keygen(["-Y", "sign", "-f", str(key.absolute()), "-n", NAMESPACE], content)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise CampaignError(f"--key {key}: ssh-keygen does not sign with it: {_said(done)}")
    try:
        return write_once(beside(receipt), done.stdout)
    except FileExistsError:
        raise CampaignError(f"{beside(receipt)} exists; a signature is not replaced: move it away first") from None


def check(receipt: Path, content: bytes, allowed: Path, signer: str | None) -> str:
    """The signer of a receipt's bytes among the allowed ones. VerificationError if there is none, or another."""
    if not allowed.is_file():
        raise CampaignError(f"--key {allowed}: no such file; give a file of allowed signers (man ssh-keygen)")
    file = beside(receipt)
    try:
        signature = file.read_bytes()
    except OSError as error:
        raise VerificationError(f"signature: {file.name}: {error.strerror}") from None
    with tempfile.TemporaryDirectory(prefix="pp3-") as folder:  # the bytes that were read, whatever becomes of the file
        copy = Path(folder) / "sig"
        copy.write_bytes(signature)
        given = ["-f", str(allowed.absolute()), "-s", str(copy)]
        if signer is None:
            found = _ssh_keygen(["-Y", "find-principals", *given], b"")
            names = found.stdout.decode("utf-8", "replace").splitlines()
            if found.returncode or not names:
                raise VerificationError(f"signature: {file.name} is by none of the allowed signers: {_said(found)}")
            signer = names[0]
        done = _ssh_keygen(["-Y", "verify", *given, "-I", signer, "-n", NAMESPACE], content)
    if done.returncode:
        raise VerificationError(f"signature: {file.name} is not one of these bytes by {signer}: {_said(done)}")
    return signer


def _ssh_keygen(arguments: list[str], content: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise PP3Error("ssh-keygen is not installed, and a signature needs it: openssh-client has it", Exit.UNAVAILABLE)
    try:
        return subprocess.run([program, *arguments], input=content, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise PP3Error(
            f"ssh-keygen took more than {LIMIT_S:g} s; sign with a key of an agent", Exit.UNAVAILABLE
        ) from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stderr or done.stdout).decode("utf-8", "replace").split("\n")
    return next((line.strip()[:160] for line in lines if line.strip()), f"exit {done.returncode}")
