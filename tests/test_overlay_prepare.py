"""pp3 prepare: what it writes, what it refuses, and that nothing is left behind; on a made-up image of two files."""

import hashlib
import json
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import pp3.harness.overlay
from pp3.harness import canonical, cli
from pp3.harness.errors import Exit, PP3Error
from pp3.harness.image import cache, fetch, find, pins
from pp3.harness.overlay import pins as overlay_pins
from pp3.harness.overlay import prepare, sources
from pp3.harness.overlay.pins import RUNNER, SAMPLER, Edited
from pp3.harness.overlay.refusal import OverlayError, Reason

pytest.importorskip("libcst", reason="LibCST is the extra `image`")
from pp3.harness.overlay import changes, edits  # after the skip
from pp3.harness.overlay.edits import Marker

VERSION = "9.9.9"
FILES = {
    SAMPLER: b"import math\n\n\ndef sample(a):\n    return a\n",
    RUNNER: b"import math\n\n\nclass Runner:\n    def verify(self):\n        return 1\n",
}
ADDED = {SAMPLER: "sample", RUNNER: "Runner.verify"}


def sha256(content: bytes) -> str:
    """In hexadecimal."""
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins and edits of a version of our own, and an empty cache."""
    made = {
        name: changes.Change(
            edits=(edits.parameter("more", function, "b: int = 0"),),
            marker=Marker(name="MARK", text="v1", notice="Changed."),
        )
        for name, function in ADDED.items()
    }
    results = {name: edits.apply(FILES[name], one.edits, one.marker, name) for name, one in made.items()}
    pinned = {name: Edited(source=sha256(FILES[name]), result=sha256(results[name])) for name in FILES}
    one = pins.Pin(wheel="0" * 64, files={SAMPLER: sha256(FILES[SAMPLER])})
    monkeypatch.setattr(pins, "PINS", {VERSION: one})
    monkeypatch.setattr(find, "DEFAULT", VERSION)
    monkeypatch.setattr(overlay_pins, "OVERLAYS", {VERSION: pinned})
    monkeypatch.setattr(sources, "OVERLAYS", {VERSION: pinned})
    monkeypatch.setattr(changes, "CHANGES", {VERSION: made})
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "home"))


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel of both files."""
    return make_wheel(tmp_path / "vllm.whl", FILES)


def make_wheel(path: Path, files: dict[str, bytes]) -> Path:
    """A wheel of these files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"vllm-{VERSION}.dist-info/RECORD", cache.format_record(files))
    return path


def test_what_is_written(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "new"
    assert cli.run(["prepare", "--image", str(wheel), "--out", str(out)]) == Exit.OK
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"vllm 9.9.9: two overlays in {out}, {prepare.STATUS}"
    assert f"  {'more':<22}Runner.verify" in said
    files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    assert [path.relative_to(out).as_posix() for path in files] == ["attestation.json", RUNNER, SAMPLER]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o444}
    assert (
        out / SAMPLER
    ).read_bytes() == b'# Changed.\nimport math\n\nMARK = "v1"\n\n\ndef sample(a, b: int = 0):\n    return a\n'
    attestation, contents = prepare.read(out)
    assert attestation == json.loads((out / "attestation.json").read_bytes())
    assert attestation["files"][1] == {
        "edits": [{"function": "sample", "name": "more"}],
        "name": SAMPLER,
        "sha256": sha256(contents[SAMPLER]),
        "sourceSha256": sha256(FILES[SAMPLER]),
    }
    assert [path.name for path in out.parent.iterdir()] == ["new"]


def test_the_same_bytes_every_time(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        assert cli.run(["prepare", "--image", str(wheel), "--out", str(tmp_path / name), "--json"]) == Exit.OK
    first, second = capsys.readouterr().out.splitlines()
    assert first == second
    assert canonical.encode(json.loads(first)) + b"\n" == (tmp_path / "two" / "attestation.json").read_bytes()


@pytest.mark.parametrize("beside", [False, True])
def test_a_folder_has_the_runner_or_it_lies_beside(beside: bool, tmp_path: Path) -> None:
    home = tmp_path / "home"
    kept = {SAMPLER: FILES[SAMPLER]} if beside else FILES
    cache.write(home / VERSION, VERSION, kept)
    if beside:
        cache.write(sources.beside(home / VERSION), VERSION, {RUNNER: FILES[RUNNER]})
    prepare.prepare(home / VERSION, tmp_path / "one")
    prepare.prepare(None, tmp_path / "two")


@pytest.mark.parametrize("old", [False, True])
def test_make_image_keeps_the_runner(
    old: bool, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the version's folder, also of one that was fetched before there were overlays."""
    home = tmp_path / "home"
    if old:
        cache.write(home / VERSION, VERSION, {SAMPLER: FILES[SAMPLER]})
    monkeypatch.setattr(fetch, "bring", lambda *_: wheel)
    monkeypatch.setattr(fetch, "OVERLAYS", {VERSION: {}})
    assert fetch.main([VERSION]) == fetch.main([VERSION]) == Exit.OK
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "vllm 9.9.9: fetched",
        "vllm 9.9.9: already there and as pinned",
    ]
    assert (sources.beside(home / VERSION) / RUNNER).read_bytes() == FILES[RUNNER]
    assert (home / VERSION / SAMPLER).read_bytes() == FILES[SAMPLER]
    prepare.prepare(None, tmp_path / "out")


def changed_wheel(tmp_path: Path, name: str) -> Path:
    """A wheel with another byte in one file, and a RECORD that says so."""
    return make_wheel(tmp_path / "changed.whl", {**FILES, name: FILES[name] + b"# more\n"})


def no_runner(tmp_path: Path) -> Path:
    """A wheel without the runner's file."""
    return make_wheel(tmp_path / "none.whl", {SAMPLER: FILES[SAMPLER]})


REFUSED: list[tuple[str, Callable[[Path], Path], Reason, str]] = [
    ("sampler changed", lambda at: changed_wheel(at, SAMPLER), Reason.SOURCE, r"rejection_sampler_utils.py .*changed"),
    ("runner changed", lambda at: changed_wheel(at, RUNNER), Reason.SOURCE, r"rejection_sampler.py of vllm 9.9.9 has"),
    ("no runner", no_runner, Reason.SOURCE, r"is not in .*none.whl, nor .* make image VERSION=9.9.9 fetches it"),
]


@pytest.mark.parametrize(("what", "made", "reason", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_sources_are_checked(
    what: str, made: Callable[[Path], Path], reason: Reason, message: str, tmp_path: Path
) -> None:
    image, out = made(tmp_path), tmp_path / "out"
    with pytest.raises(OverlayError, match=message) as caught:
        prepare.prepare(image, out)
    assert caught.value.reason is reason
    assert caught.value.exit_code == Exit.USAGE
    assert not out.exists()


def test_a_folder_that_is_there_is_left_alone(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(OverlayError, match="is there already: give a new folder") as caught:
        prepare.prepare(wheel, tmp_path / "out")
    assert caught.value.reason is Reason.EXISTS
    assert [*(tmp_path / "out").iterdir()] == []


def test_a_version_without_edits(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_pins, "OVERLAYS", {"1.0": {}})
    with pytest.raises(OverlayError, match=r"vllm 9.9.9 has no edits written for it: prepare one of 1.0") as caught:
        prepare.prepare(wheel, tmp_path / "out")
    assert caught.value.reason is Reason.VERSION


def test_another_result_is_refused(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = dict(overlay_pins.OVERLAYS[VERSION])
    pinned[SAMPLER] = Edited(source=pinned[SAMPLER].source, result="0" * 64)
    monkeypatch.setattr(overlay_pins, "OVERLAYS", {VERSION: pinned})
    with pytest.raises(OverlayError, match=r"comes out with sha256 .*, reviewed was 0000") as caught:
        prepare.prepare(wheel, tmp_path / "out")
    assert caught.value.reason is Reason.RESULT
    assert not (tmp_path / "out").exists()


def replace_file(folder: Path, name: str, content: bytes) -> None:
    """Another content for a read-only file."""
    (folder / name).chmod(0o644)
    (folder / name).write_bytes(content)


def lie(folder: Path, key: str, value: object) -> None:
    """Another value in the attestation's first file, or of its own."""
    attestation = json.loads((folder / "attestation.json").read_bytes())
    (attestation if key in attestation else attestation["files"][0])[key] = value
    replace_file(folder, "attestation.json", canonical.encode(attestation))


SPOILT: list[tuple[str, Callable[[Path], object], str]] = [
    ("no attestation", lambda at: (at / "attestation.json").unlink(), r"pp3 prepare --out writes one"),
    ("no JSON", lambda at: replace_file(at, "attestation.json", b"{"), r"is no attestation"),
    ("a list", lambda at: replace_file(at, "attestation.json", b"[]"), r"is no attestation"),
    ("file gone", lambda at: (at / SAMPLER).unlink(), r"No such file"),
    ("file changed", lambda at: replace_file(at, RUNNER, b"x = 1\n"), r"reviewed was"),
    ("digest changed", lambda at: lie(at, "sha256", "0" * 64), r"its attestation says 0000"),
    ("source changed", lambda at: lie(at, "sourceSha256", "0" * 64), r"source of .* is not the release's"),
    ("name changed", lambda at: lie(at, "name", "vllm/other.py"), r"names other files or markers"),
    ("marker changed", lambda at: lie(at, "markers", {}), r"names other files or markers"),
    ("version changed", lambda at: lie(at, "vllm", "1.0"), r"vllm 1.0 has no edits"),
]


@pytest.mark.parametrize(("what", "spoil", "message"), SPOILT, ids=[row[0] for row in SPOILT])
def test_a_spoilt_folder_is_not_used(
    what: str, spoil: Callable[[Path], object], message: str, wheel: Path, tmp_path: Path
) -> None:
    prepare.prepare(wheel, tmp_path / "out")
    spoil(tmp_path / "out")
    with pytest.raises(OverlayError, match=message) as caught:
        prepare.read(tmp_path / "out")
    assert caught.value.reason in (Reason.ATTESTATION, Reason.VERSION)


def test_every_reason_is_met_somewhere() -> None:
    """The tests of the edits meet the others; this holds the two files to the list."""
    here = {Reason.VERSION, Reason.SOURCE, Reason.RESULT, Reason.EXISTS, Reason.ATTESTATION}
    edited = {Reason.PARSE, Reason.FUNCTION, Reason.PLACE, Reason.TAKEN, Reason.TOUCHED}
    assert here | edited == {*Reason}
    text = Path(__file__).with_name("test_overlay_edits.py").read_text("utf-8") + Path(__file__).read_text("utf-8")
    assert [reason for reason in Reason if f"Reason.{reason.name}" not in text] == []


def test_without_libcst_it_says_so(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "libcst" or name.endswith("overlay.edits")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "libcst", None)
    monkeypatch.delattr(pp3.harness.overlay, "edits")
    with pytest.raises(
        PP3Error, match=r"libcst is not installed, and an overlay needs it: pip install 'pp3\[image\]'"
    ) as caught:
        prepare.prepare(wheel, tmp_path / "out")
    assert caught.value.exit_code == Exit.UNAVAILABLE


def test_prepare_and_qualify_say_what_they_lack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["prepare"]) == Exit.USAGE
    assert "Missing option '--out'" in capsys.readouterr().err
    assert cli.run(["qualify", "--sampler", "overlay"]) == Exit.USAGE
    assert "--sampler overlay needs --overlay DIR: pp3 prepare --out DIR writes one" in capsys.readouterr().err
    assert cli.run(["qualify", "--overlay", str(tmp_path)]) == Exit.USAGE
    assert "it is for --sampler overlay" in capsys.readouterr().err
    assert cli.run(["qualify", "--sampler", "overlay", "--jobs", "2"]) == Exit.USAGE
    assert "leave --dir, --shard and --jobs out" in capsys.readouterr().err
