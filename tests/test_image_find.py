"""Finding an image: three places, both checks, and every bad input; on small wheels made here."""

import sys
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from small_wheels import CHANGED, FILES, OTHER, PATCHES, VERSION, empty_home, make_wheel, sha256

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import cache, find, pins
from pp3.harness.image.find import Where
from pp3.harness.image.pins import Part

REAL_PINS = pins.PINS


@pytest.fixture(autouse=True)
def image_home(tmp_path: Path, monkeypatch: PATCHES) -> Path:
    """A pin table of two made-up versions, an empty cache, and no installed vllm."""
    return empty_home(tmp_path, monkeypatch)


def install(folder: Path, monkeypatch: PATCHES, version: str = VERSION) -> Path:
    """An installed vllm whose import would fail the test."""
    site = folder / "site"
    cache.write(site, version, FILES)
    (site / f"vllm-{version}.dist-info" / "METADATA").write_text(f"Name: vllm\nVersion: {version}\n")
    (site / "vllm" / "__init__.py").write_text("raise SystemExit('vllm was imported')\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_an_installed_distribution_is_found_and_not_imported(tmp_path: Path, monkeypatch: PATCHES) -> None:
    """Through its metadata."""
    site = install(tmp_path, monkeypatch)
    found = find.find()
    assert (found.version, found.where, found.place) == (VERSION, Where.INSTALLED, site)
    assert found.contents == FILES
    assert (found.matches_record, found.matches_pin) == (True, True)
    assert not {name for name in sys.modules if name.partition(".")[0] == "vllm"}


def test_a_wheel_is_found(tmp_path: Path) -> None:
    """By its path; only the named members are read."""
    found = find.find(make_wheel(tmp_path / "vllm.whl"))
    assert (found.version, found.where, found.contents) == (VERSION, Where.WHEEL, FILES)
    assert found.plain() == {
        "files": [{"name": name, "sha256": sha256(content)} for name, content in sorted(FILES.items())],
        "matchesPin": True,
        "matchesRecord": True,
        "version": VERSION,
        "where": "wheel",
    }


@pytest.mark.parametrize(
    "path", [lambda home: None, lambda home: home, lambda home: home / VERSION], ids=["no path", "the cache", "within"]
)
def test_a_cache_folder_is_found(path: Callable[[Path], Path | None], image_home: Path) -> None:
    """Without a path, by the folder of all versions, and by its own."""
    cache.write(image_home / VERSION, VERSION, FILES)
    found = find.find(path(image_home), VERSION)
    assert (found.version, found.where, found.place) == (VERSION, Where.CACHE, image_home / VERSION)
    assert (found.matches_record, found.matches_pin) == (True, True)


def test_the_version_that_is_asked_for_is_found_beside_an_installed_one(
    image_home: Path, tmp_path: Path, monkeypatch: PATCHES
) -> None:
    """Installed comes first only if it is that version."""
    install(tmp_path, monkeypatch, OTHER)
    cache.write(image_home / VERSION, VERSION, FILES)
    assert find.find(None, VERSION).where is Where.CACHE
    assert find.find(None, OTHER).where is Where.INSTALLED
    assert find.find().version == OTHER


def test_a_local_version_has_the_pins_of_the_public_one(tmp_path: Path) -> None:
    """9.9.9+cu130."""
    found = find.find(make_wheel(tmp_path / "vllm.whl", version=f"{VERSION}+cu130"), VERSION)
    assert (found.version, found.matches_pin) == (f"{VERSION}+cu130", True)


def swap_record(files: Mapping[str, bytes]) -> bytes:
    """A RECORD of other bytes."""
    return cache.format_record({**files, pins.GUMBEL: CHANGED})


Made = Callable[[Path], Path]
CHANGES: dict[str, tuple[Made, bool, bool]] = {
    "a byte changed, RECORD left": (
        lambda path: make_wheel(path, {**FILES, pins.GUMBEL: CHANGED}, cache.format_record(FILES)),
        False,
        False,
    ),
    "a byte changed, RECORD too": (lambda path: make_wheel(path, {**FILES, pins.GUMBEL: CHANGED}), True, False),
    "RECORD changed": (lambda path: make_wheel(path, record=swap_record(FILES)), False, True),
    "RECORD without the row": (lambda path: make_wheel(path, record=b""), False, True),
}


@pytest.mark.parametrize(("made", "record", "pin"), CHANGES.values(), ids=CHANGES)
def test_a_change_is_reported_and_refused(made: Made, record: bool, pin: bool, tmp_path: Path) -> None:
    """Both checks, one file named, all hashes shown."""
    found = find.find(made(tmp_path / "vllm.whl"))
    assert (found.matches_record, found.matches_pin) == (record, pin)
    assert found.members[pins.VERIFIER].matches_pin
    with pytest.raises(CampaignError) as refusal:
        found.refuse_changed()
    assert refusal.value.exit_code == Exit.USAGE
    member = found.members[pins.GUMBEL]
    for part in (VERSION, pins.GUMBEL, member.sha256, member.recorded or "nothing", member.pinned, "make image"):
        assert part in str(refusal.value)
    if not pin:
        assert {member.sha256, member.pinned} == {sha256(CHANGED), sha256(FILES[pins.GUMBEL])}


def test_a_changed_installed_file_is_reported(tmp_path: Path, monkeypatch: PATCHES) -> None:
    """A patched image."""
    path = install(tmp_path, monkeypatch) / pins.GUMBEL
    path.chmod(0o644)
    path.write_bytes(CHANGED)
    found = find.find()
    assert (found.matches_record, found.matches_pin) == (False, False)


def not_a_zip(path: Path) -> Path:
    """Some bytes."""
    path.write_bytes(b"PK\x03\x04 and no more")
    return path


def damaged(path: Path) -> Path:
    """A wheel with one stored byte flipped."""
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in {**FILES, f"vllm-{VERSION}.dist-info/RECORD": cache.format_record(FILES)}.items():
            wheel.writestr(name, content)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"gumbel = 1", b"gumbel = 2"))
    return path


def empty_folder(path: Path) -> Path:
    """Nothing in it."""
    path.mkdir()
    return path


def partial_folder(path: Path) -> Path:
    """A cache that lost a file."""
    cache.write(path, VERSION, {pins.GUMBEL: FILES[pins.GUMBEL]})
    return path


def two_versions(path: Path) -> Path:
    """Two RECORDs."""
    make_wheel(path)
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.writestr(f"vllm-{OTHER}.dist-info/RECORD", b"")
    return path


REFUSED: dict[str, tuple[Made, str | None, str]] = {
    "an unknown version": (
        lambda path: make_wheel(path, version="0.24.0"),
        None,
        r"vllm 0\.24\.0 is not pinned.*9\.9\.9, 9\.9\.8",
    ),
    "an unknown version asked for": (make_wheel, "0.24.0", r"vllm 0\.24\.0 is not pinned"),
    "another version": (make_wheel, OTHER, r"holds vllm 9\.9\.9, not 9\.9\.8"),
    "a missing member": (
        lambda path: make_wheel(path, {pins.GUMBEL: FILES[pins.GUMBEL]}),
        None,
        rf"{pins.VERIFIER} is missing from .*make image VERSION=9\.9\.9",
    ),
    "a member missing from a cache": (partial_folder, None, rf"{pins.VERIFIER} is missing from"),
    "no such file": (lambda path: path, None, r"no such file or folder; make image"),
    "not a zip": (not_a_zip, None, "cannot be read as a wheel"),
    "a damaged zip": (damaged, None, "cannot be read as a wheel: Bad CRC-32"),
    "a folder without an image": (empty_folder, None, "has 0 vllm-VERSION.dist-info/RECORD, not 1"),
    "a wheel of something else": (
        lambda path: make_wheel(path, version="9/x"),
        None,
        "has 0 vllm-VERSION.dist-info/RECORD, not 1",
    ),
    "two distributions in one": (two_versions, None, "has 2 vllm-VERSION.dist-info/RECORD, not 1"),
    "a RECORD that is no text": (lambda path: make_wheel(path, record=b"\xff"), None, "RECORD of vllm 9.9.9 cannot be"),
    "a RECORD with a bad hash": (
        lambda path: make_wheel(path, record=b"x,sha256=A,1\n"),
        None,
        "RECORD of vllm 9.9.9 cannot be",
    ),
    "a member that is too large": (
        lambda path: make_wheel(path, {**FILES, pins.GUMBEL: bytes(find.LARGEST_FILE + 1)}),
        None,
        rf"{pins.GUMBEL} has {find.LARGEST_FILE + 1} bytes or more, the limit is {find.LARGEST_FILE}",
    ),
}


@pytest.mark.parametrize(("made", "version", "reason"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused(made: Made, version: str | None, reason: str, tmp_path: Path) -> None:
    """Exit 2, with the value and the way out."""
    with pytest.raises(CampaignError, match=reason) as refusal:
        find.find(made(tmp_path / "given"), version)
    assert refusal.value.exit_code == Exit.USAGE


def test_no_image_at_all_is_something_missing(image_home: Path) -> None:
    """Exit 69, and how to get one."""
    with pytest.raises(PP3Error, match=r"vllm 9\.9\.9 is neither installed nor in the cache; make image") as missing:
        find.find()
    assert missing.value.exit_code == Exit.UNAVAILABLE


def test_an_editable_install_is_refused(tmp_path: Path, monkeypatch: PATCHES) -> None:
    """Its RECORD has no rows for the files, and they lie elsewhere."""
    site = tmp_path / "site"
    cache.write(site, VERSION, {})
    (site / f"vllm-{VERSION}.dist-info" / "METADATA").write_text(f"Name: vllm\nVersion: {VERSION}\n")
    monkeypatch.syspath_prepend(str(site))
    with pytest.raises(CampaignError, match="an editable or partial install has no such file"):
        find.find()


def test_the_real_pins_are_whole() -> None:
    """Sixty-four hexadecimal digits each, one verifier and one plain sampler in every version."""
    assert list(REAL_PINS) == ["0.28.0", "0.29.0", "0.30.0", "0.33.0"]
    for pin in REAL_PINS.values():
        for digest in (pin.wheel, *pin.files.values()):
            assert len(bytes.fromhex(digest)) == 32
        assert {pins.GUMBEL, pins.VERIFIER} <= set(pin.members(Part.V2))
        assert {name for part in Part for name in pin.members(part)} == set(pin.files)
