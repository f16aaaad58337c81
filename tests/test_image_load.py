"""Loading an image: the proof that nothing else was imported, and that what stood in is removed.

On small files made here, in the places of vLLM's; test_image_real.py does it with the real ones.
"""

import hashlib
import inspect
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from small_image import FILES, GUMBEL, MODULE, PATCHES, VERSION, clean_process, keep

from pp3.harness.errors import CampaignError, Exit, PP3Error
from pp3.harness.image import load, pins
from pp3.harness.image.find import Image, find
from pp3.harness.image.pins import Part


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: PATCHES) -> Iterator[None]:
    """A pin table and a cache of the test's own; and the process as it was."""
    with clean_process(tmp_path / "home", monkeypatch):
        yield


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """Four small files."""
    return find(keep(tmp_path / "kept", FILES))


def test_the_files_of_a_part_and_no_others_are_loaded(image: Image) -> None:
    """By name and digest; everything else is named as a stand-in."""
    loaded = load.load(image, Part.V2)
    assert loaded.files == {name: hashlib.sha256(text.encode()).hexdigest() for name, text in FILES.items()}
    assert {name: module.__file__ for name, module in loaded.modules.items()} == {
        MODULE[name]: str(image.place / name) for name in FILES
    }
    assert loaded.shims == (
        "vllm",
        "vllm.triton_utils",
        "vllm.v1",
        "vllm.v1.watermarking",
        "vllm.v1.watermarking.prfs",
        "vllm.v1.worker",
        "vllm.v1.worker.gpu",
        "vllm.v1.worker.gpu.sample",
        "vllm.v1.worker.gpu.spec_decode",
    )
    assert (loaded.log1p, loaded.mended) == ("numpy", ("log1p", "loops", "masks"))
    assert loaded.plain()["part"] == "v2"


def test_nothing_is_left_in_the_process(image: Image) -> None:
    """Neither a name nor the finder; and a real vllm that comes later is seen."""
    loaded = load.load(image, Part.V2)
    assert loaded.intruders() == []
    assert not [finder for finder in sys.meta_path if isinstance(finder, load._Finder)]
    sys.modules["vllm.config"] = ModuleType("vllm.config")
    try:
        assert loaded.intruders() == ["vllm.config"]
    finally:
        del sys.modules["vllm.config"]


def test_what_was_there_before_is_put_back(image: Image) -> None:
    """The same objects, and they are no intruders."""
    there = {name: ModuleType(name) for name in ("vllm", "vllm.v1", MODULE[pins.GUMBEL])}
    sys.modules.update(there)
    try:
        loaded = load.load(image, Part.V2)
        assert {name: sys.modules[name] for name in there} == there
        assert loaded.modules[MODULE[pins.GUMBEL]] is not there[MODULE[pins.GUMBEL]]
        assert loaded.intruders() == []
    finally:
        for name in there:
            del sys.modules[name]


def test_versions_are_loaded_side_by_side(tmp_path: Path) -> None:
    """Each with its own modules."""
    loaded = {}
    for version in ("9.9.8", VERSION):
        files = FILES | {pins.GUMBEL: GUMBEL.replace(VERSION, version)}
        loaded[version] = load.load(find(keep(tmp_path / version, files, version)), Part.V2)
    assert [loaded[version].entries["rejection_sample"](5) for version in loaded] == [(5, "9.9.8"), (5, VERSION)]


def test_an_installed_vllm_is_read_and_not_imported(tmp_path: Path, monkeypatch: PATCHES) -> None:
    """Its packages would end the process, and nothing is written beside its files."""
    site = keep(tmp_path / "site", FILES)
    (site / f"vllm-{VERSION}.dist-info" / "METADATA").write_text(f"Name: vllm\nVersion: {VERSION}\n")
    for package in {site / parent for name in FILES for parent in Path(name).parents if parent != Path(".")}:
        (package / "__init__.py").write_text("raise SystemExit('vllm was imported')\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = sorted(site.rglob("*"))
    loaded = load.load(find(), Part.V2)
    assert loaded.entries["rejection_sample"](7) == (7, VERSION)
    assert sorted(site.rglob("*")) == before


def test_a_wheel_is_loaded_from_kept_files(tmp_path: Path) -> None:
    """Under the digest of what is in it."""
    folder = keep(tmp_path / "kept", FILES)
    with zipfile.ZipFile(tmp_path / "vllm.whl", "w") as wheel:
        for path in folder.rglob("*"):
            wheel.write(path, path.relative_to(folder))
    for _ in range(2):
        loaded = load.load(find(tmp_path / "vllm.whl"), Part.V2)
        assert loaded.entries["rejection_sample"](7) == (7, VERSION)
    kept = [*(tmp_path / "home").iterdir()]
    assert [path.name[:6] for path in kept] == ["wheel-"]
    assert find(kept[0]).contents == find(folder).contents


def test_the_bytes_that_were_checked_are_run(image: Image) -> None:
    """Not what lies on the disk by then: neither the source, nor what Triton reads of it."""
    path = image.place / pins.GUMBEL
    path.chmod(0o644)
    path.write_text("raise SystemExit('changed after the check')\n")
    loaded = load.load(image, Part.V2)
    assert inspect.getsource(loaded.entries["gumbel_sample"]) in GUMBEL
    x = torch.tensor([0.5, 1.0, 2.0])
    assert loaded.entries["gumbel_sample"](x).tolist() == [*np.log1p(x.numpy()[:2]).tolist(), 0.0]


def test_a_changed_file_is_not_loaded(tmp_path: Path) -> None:
    """Both hashes, exit 2."""
    folder = keep(tmp_path / "kept", FILES)
    (folder / pins.GUMBEL).chmod(0o644)
    (folder / pins.GUMBEL).write_text(GUMBEL.replace("other=0.0", "other=1.0"))
    changed = find(folder)
    with pytest.raises(CampaignError, match=pins.GUMBEL) as refusal:
        load.load(changed, Part.V2)
    assert refusal.value.exit_code == Exit.USAGE
    assert changed.members[pins.GUMBEL].sha256 in str(refusal.value)
    assert pins.PINS[VERSION].files[pins.GUMBEL] in str(refusal.value)


ENGINE = {
    "an engine module": "import vllm.engine.llm_engine\n",
    "a configuration": "from vllm.config import VllmConfig\n",
    "a platform": "from vllm.platforms.cuda import CudaPlatform\n",
    "a name that no stand-in has": "from vllm.triton_utils import gluon\n",
    "something that this torch lacks": "import torch\n\ntorch.no_such_function()\n",
}


@pytest.mark.parametrize("line", ENGINE.values(), ids=ENGINE)
def test_a_file_that_needs_more_is_refused(line: str, tmp_path: Path) -> None:
    """Exit 69, and the process is as it was."""
    image = find(keep(tmp_path / "kept", FILES | {pins.GUMBEL: line + GUMBEL}))
    with pytest.raises(PP3Error, match=r"the v2 files of vllm 9\.9\.9 cannot be loaded with the torch") as refusal:
        load.load(image, Part.V2)
    assert refusal.value.exit_code == Exit.UNAVAILABLE


def test_a_file_of_the_part_that_nothing_imports_is_an_error(tmp_path: Path) -> None:
    """A verifier that no longer imports the watermark would be another verifier."""
    image = find(keep(tmp_path / "kept", FILES | {pins.FLY: "x = 1\n"}))
    with pytest.raises(PP3Error, match=r"the files imported are not those of the part: .*fly"):
        load.load(image, Part.V2)


def test_a_module_that_brings_a_file_of_its_own_is_an_error(tmp_path: Path) -> None:
    """However it got in."""
    smuggled = (
        "import sys\nfrom types import ModuleType\n\nm = ModuleType('vllm.engine')\nm.__file__ = '/engine.py'\n"
        "sys.modules['vllm.engine'] = m\n"
    )
    image = find(keep(tmp_path / "kept", FILES | {pins.GUMBEL: smuggled + GUMBEL}))
    with pytest.raises(PP3Error, match=r"not those of the part: .*vllm\.engine"):
        load.load(image, Part.V2)
