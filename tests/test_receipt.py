"""A receipt: an in-toto statement in canonical bytes, under its own digest, never replaced, that names no one."""

import errno
import hashlib
import json
import os
import re
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pp3
from pp3.harness import canonical
from pp3.harness.errors import Exit, ReceiptError
from pp3.harness.evidence import receipt

NAME = re.compile(r"\d{8}T\d{6}Z-([0-9a-f]{64})\.json")
DIGEST = re.compile(r"[0-9a-f]{64}")
WRITERS = 16


@pytest.fixture
def statement(real_receipt: Path) -> dict[str, Any]:
    """The statement of the session's real receipt, a fresh copy."""
    return dict(canonical.decode(real_receipt.read_bytes()))


def leaves(value: Any) -> Iterator[Any]:
    """Every value and key that holds no others."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def left_in(folder: Path) -> list[str]:
    """Names of everything in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def test_the_name_holds_the_digest_of_the_bytes(real_receipt: Path) -> None:
    """Anyone can run sha256sum."""
    named = NAME.fullmatch(real_receipt.name)
    assert named
    assert named[1] == hashlib.sha256(real_receipt.read_bytes()).hexdigest()


def test_the_name_holds_the_start(real_receipt: Path, statement: dict[str, Any]) -> None:
    """So that a listing is in the order of the runs."""
    started = statement["predicate"]["run"]["startedUtc"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", started)
    assert real_receipt.name.startswith(re.sub("[-:]", "", started) + "-")


def test_the_bytes_are_canonical_without_a_newline(real_receipt: Path, statement: dict[str, Any]) -> None:
    """Read back and written again they are the same."""
    assert canonical.encode(statement) == real_receipt.read_bytes()
    assert not real_receipt.read_bytes().endswith(b"\n")


def test_a_receipt_is_read_only_and_alone_in_its_folder(real_receipt: Path) -> None:
    """Mode 0444, and no temporary file beside it."""
    assert stat.S_IMODE(real_receipt.stat().st_mode) == 0o444
    assert left_in(real_receipt.parent) == [real_receipt.name]


def test_no_float_is_in_a_receipt(real_receipt: Path) -> None:
    """Nor in its JSON as another reader sees it."""
    parsed = json.loads(real_receipt.read_bytes(), parse_float=lambda text: pytest.fail(f"a float: {text}"))
    assert {type(leaf) for leaf in leaves(parsed)} <= {str, int, bool, type(None)}


def test_a_receipt_names_no_one_and_no_place(statement: dict[str, Any]) -> None:
    """No host, user, home, folder or path."""
    texts = [leaf for leaf in leaves(statement) if isinstance(leaf, str)]
    words = {socket.gethostname(), Path.home().name, os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    for word in (word for word in words if len(word) > 3):  # a shorter one is a word of ours by chance
        assert not [text for text in texts if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)], word
    for part in (str(Path.home()), str(Path.cwd()), "/root/", "/home/", "/tmp/", "/Users/", "\\", "@"):
        assert part == "/" or not [text for text in texts if part in text], part
    assert not [text for text in texts if text.startswith("/")]


def test_it_is_an_in_toto_statement(statement: dict[str, Any]) -> None:
    """Statement v1: four fields, subjects matched by digest."""
    assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:pp3:receipt:v1"
    assert statement["subject"]
    for subject in statement["subject"]:
        assert set(subject) == {"name", "digest"}
        assert set(subject["digest"]) == {"sha256"}
        assert DIGEST.fullmatch(subject["digest"]["sha256"])
    names = [subject["name"] for subject in statement["subject"]]
    assert names == sorted(set(names))


def test_what_readers_index_is_plain_strings(statement: dict[str, Any]) -> None:
    """Verdict, profile and sampler."""
    predicate = statement["predicate"]
    assert predicate["verdict"] == "PASS", predicate["reasons"]
    assert predicate["kind"] == "qualify"
    assert isinstance(predicate["profile"], str)
    assert predicate["sampler"]["name"] == "pp3-top32"
    assert predicate["sampler"]["version"] == pp3.__version__
    assert predicate["tool"] == {"name": "pp3", "version": pp3.__version__}
    assert predicate["sentence"].startswith("PASS: ")


def test_every_cell_stores_its_counts(statement: dict[str, Any]) -> None:
    """A list of integers, for each batch size apart, and one of the first half of the requests."""
    cells = statement["predicate"]["cells"]
    for cell in cells:
        assert set(cell) == {"id", "batch", "counts", "first"}
        assert {type(count) for count in cell["counts"] + cell["first"]} == {int}
        assert all(0 <= half <= whole for half, whole in zip(cell["first"], cell["counts"], strict=True))
    assert len({(cell["id"], cell["batch"]) for cell in cells}) == len(cells)
    assert {cell["batch"] for cell in cells} == {1, 2, 3, 4}


def test_the_seed_says_how_it_was_chosen(statement: dict[str, Any]) -> None:
    """SHA-256 over the plan's digest and the counter, little-endian."""
    predicate = statement["predicate"]
    message = bytes.fromhex(predicate["planSha256"]) + predicate["seed"]["counter"].to_bytes(8, "little")
    assert predicate["seed"]["sha256"] == hashlib.sha256(message).hexdigest()
    assert (predicate["seed"]["counter"], predicate["seed"]["chosen"]) == (7, "given")


def test_the_non_claims_are_fixed(statement: dict[str, Any]) -> None:
    """Four sentences, word for word."""
    assert statement["predicate"]["nonClaims"] == [
        "Not qualified for serving.",
        "Nothing is shown of any real model, model pair, grammar lifecycle or other hardware.",
        "No live A/B test is advised by this receipt.",
        "No speedup is claimed.",
    ]


def test_a_second_write_is_refused_and_changes_nothing(statement: dict[str, Any], tmp_path: Path) -> None:
    """FileExistsError; the first file keeps its bytes, time and place."""
    first = receipt.write(statement, tmp_path)
    before = first.stat()
    with pytest.raises(FileExistsError):
        receipt.write(statement, tmp_path)
    after = first.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert left_in(tmp_path) == [first.name]


def test_a_file_in_the_way_is_never_replaced(statement: dict[str, Any], tmp_path: Path) -> None:
    """Nor a link, even a dangling one."""
    name = receipt.write(statement, tmp_path / "elsewhere").name
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError):
        receipt.write(statement, tmp_path)
    assert left_in(tmp_path) == sorted(["elsewhere", name])


def test_of_racing_writers_one_wins(statement: dict[str, Any], tmp_path: Path) -> None:
    """The rest are refused; one whole file is left."""
    start = threading.Barrier(WRITERS)
    won: list[Path] = []
    refused: list[FileExistsError] = []

    def race() -> None:
        start.wait()
        try:
            won.append(receipt.write(statement, tmp_path))
        except FileExistsError as error:
            refused.append(error)

    threads = [threading.Thread(target=race) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, WRITERS - 1)
    assert left_in(tmp_path) == [won[0].name]
    assert won[0].read_bytes() == canonical.encode(statement)


@pytest.mark.parametrize("call", ["fsync", "chmod", "link"])
def test_a_failed_write_leaves_nothing(
    call: str, statement: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever step fails: whole or not at all."""

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space left"):
        receipt.write(statement, tmp_path)
    assert left_in(tmp_path) == []


def test_a_receipt_reads_back(real_receipt: Path, statement: dict[str, Any]) -> None:
    """Its bytes and what they hold."""
    assert receipt.read(real_receipt) == (real_receipt.read_bytes(), statement)


def test_a_missing_receipt_is_a_usage_error(tmp_path: Path) -> None:
    """Exit code 2, and the path."""
    with pytest.raises(ReceiptError, match=r"nowhere\.json: No such file") as refused:
        receipt.read(tmp_path / "nowhere.json")
    assert refused.value.exit_code == Exit.USAGE


MALFORMED = {
    "truncated": (lambda content: content[:-1], "truncated"),
    "empty": (lambda content: b"", "truncated"),
    "no object": (lambda content: b"[]", "not an in-toto statement"),
    "another type": (lambda content: content.replace(b"Statement/v1", b"Statement/v2"), "not an in-toto statement"),
    "another predicate": (lambda content: content.replace(b"receipt:v1", b"receipt:v2"), "urn:pp3:receipt:v2"),
    "an unknown field": (lambda content: content.replace(b'"breaches":', b'"belief":1,"breaches":'), "belief"),
    "a field missing": (lambda content: content.replace(b'"assurance":"self-attested",', b""), "assurance"),
    "an integer of 5,000 digits": (lambda content: content.replace(b'"counter":7', b'"counter":' + b"7" * 5000), ""),
}


@pytest.mark.parametrize(("change", "reason"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_receipt_is_refused(change: Any, reason: str, real_receipt: Path, tmp_path: Path) -> None:
    """Exit code 1, the path and the reason, in one line."""
    path = tmp_path / "receipt.json"
    path.write_bytes(change(real_receipt.read_bytes()))
    with pytest.raises(ReceiptError) as refused:
        receipt.read(path)
    assert refused.value.exit_code == Exit.NEGATIVE
    assert str(path) in str(refused.value)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)
