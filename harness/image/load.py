"""Load the sampler files of an image without vLLM: checked bytes, stand-ins for the rest, and nothing left behind.

While the files are imported, a finder answers for every `vllm` name: a file of the image, a stand-in of shims.py, an
empty package above one of them, or an error. An installed vLLM is never asked. Then the names are taken away again, so
that several versions can be loaded side by side.
"""

import hashlib
import importlib
import linecache
import sys
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from pp3.harness.errors import Exit, PP3Error
from pp3.harness.image import cache, interpreter, pins, shims
from pp3.harness.image.find import Image, Where
from pp3.harness.image.pins import Part, pin_of

ENTRIES = {
    Part.V2: {"rejection_sample": pins.VERIFIER, "gumbel_sample": pins.GUMBEL},
    Part.CLASSIC: {"rejection_sample": pins.CLASSIC},
    Part.TOPK_TOPP: {
        "apply_top_k_top_p": pins.FILTER,
        "apply_top_k_top_p_pytorch": pins.FILTER,
        "apply_top_k_top_p_triton": pins.FILTER_TRITON,
        "random_sample": pins.FILTER,
        "TopKTopPSampler": pins.FILTER,
    },
}
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A part of an image, ready to be called."""

    version: str
    part: Part
    modules: dict[str, ModuleType]  # by the name that vLLM gives them
    entries: dict[str, Any]  # by name: see ENTRIES
    files: dict[str, str]  # name to SHA-256 of the bytes that were run: these and no other file of vLLM
    shims: tuple[str, ...]  # names that stand-ins answered
    log1p: str  # libdevice or, in the interpreter, numpy
    mended: tuple[str, ...]  # what the interpreter was given: see interpreter.py
    forbidden: tuple[str, ...]  # entry points that raise
    before: frozenset[str]  # vllm names that the process had

    def intruders(self) -> list[str]:
        """vllm names that the process has come to hold since: none, unless what ran imported the real one."""
        return sorted(set(filter(_is_vllm, sys.modules)) - self.before)

    def plain(self) -> dict[str, Any]:
        """Receipt form."""
        return {
            "files": [{"name": name, "sha256": digest} for name, digest in sorted(self.files.items())],
            "forbidden": list(self.forbidden),
            "log1p": self.log1p,
            "mended": list(self.mended),
            "part": self.part.value,
            "shims": list(self.shims),
            "version": self.version,
        }


def load(image: Image, part: Part) -> Loaded:
    """Import a part's files. CampaignError if one was changed; PP3Error (69) if it cannot be imported here.

    Whether kernels are compiled or interpreted is decided now, by TRITON_INTERPRET.
    """
    image.refuse_changed()
    _need("torch", "triton")
    folder = _folder(image)
    names = pin_of(image.version).members(part)
    finder = _Finder(folder, {_module(name): image.members[name].content for name in names}, shims.contents())
    mended = interpreter.mend() if interpreter.active() else ()
    with _ONE_AT_A_TIME:
        before = _take_away()
        sys.meta_path.insert(0, finder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of what the files make torch import
                for name in dict.fromkeys(ENTRIES[part].values()):
                    importlib.import_module(_module(name))
        except Exception as error:  # whatever the files raise under this torch and triton
            raise PP3Error(
                f"the {part} files of vllm {image.version} cannot be loaded with the torch and triton that are"
                f" installed: {type(error).__name__}: {error}",
                Exit.UNAVAILABLE,
            ) from error
        finally:
            sys.meta_path.remove(finder)
            present = _take_away()
            sys.modules.update(before)
    modules = {name: module for name, module in present.items() if getattr(module, "__file__", None)}
    _prove({name: str(module.__file__) for name, module in modules.items()}, folder, names)
    forbidden = _forbid(modules)
    return Loaded(
        version=image.version,
        part=part,
        modules=modules,
        entries={entry: getattr(modules[_module(name)], entry) for entry, name in ENTRIES[part].items()},
        files={name: image.members[name].sha256 for name in names},
        shims=tuple(sorted(present.keys() - modules.keys())),
        log1p="numpy" if interpreter.active() else "libdevice",
        mended=mended,
        forbidden=forbidden,
        before=frozenset(before),
    )


class _Finder(MetaPathFinder, Loader):
    """Answers for `vllm` and every name below it."""

    def __init__(self, folder: Path, contents: dict[str, bytes], stands_in: dict[str, dict[str, Any]]) -> None:
        self.folder = folder
        self.contents = contents
        self.shims = {name: attributes for name, attributes in stands_in.items() if name not in contents}
        known = [*self.contents, *self.shims]
        self.packages = {name[:at] for name in known for at, sign in enumerate(name) if sign == "."}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A file, a stand-in, or a refusal."""
        if not _is_vllm(fullname):
            return None
        if fullname in self.contents:
            return spec_from_file_location(fullname, self._path(fullname), loader=self)
        if fullname in self.packages or fullname in self.shims:
            return ModuleSpec(fullname, self, is_package=fullname in self.packages)
        raise ModuleNotFoundError(f"{fullname} is neither a file of this part nor a stand-in", name=fullname)

    def exec_module(self, module: ModuleType) -> None:
        """Run the bytes that were checked, not what lies on the disk now, nor a compiled file beside it."""
        name = module.__name__
        if name not in self.contents:
            vars(module).update(self.shims.get(name, {}))
            return
        content, path = self.contents[name], str(self._path(name))
        # Triton reads the source of a kernel through linecache; without a time it is not read from the disk again.
        linecache.cache[path] = (len(content), None, content.decode("utf-8").splitlines(keepends=True), path)
        exec(compile(content, path, "exec", dont_inherit=True), vars(module))

    def _path(self, module: str) -> Path:
        return self.folder / f"{module.replace('.', '/')}.py"


def _folder(image: Image) -> Path:
    """Where the files lie; those of a wheel are kept in the cache, under the digest of their names and bytes."""
    if image.where is not Where.WHEEL:
        return image.place.absolute()
    lines = [f"{name} {member.sha256}\n" for name, member in sorted(image.members.items())]
    folder = cache.need_folder().absolute() / f"wheel-{hashlib.sha256(''.join(lines).encode()).hexdigest()[:16]}"
    cache.write(folder, image.version, image.contents)
    return folder


def _module(name: str) -> str:
    return name.removesuffix(".py").replace("/", ".")


def _is_vllm(name: str) -> bool:
    return name == "vllm" or name.startswith("vllm.")


def _take_away() -> dict[str, ModuleType]:
    """Remove every vllm name from the process; what they were."""
    return {name: sys.modules.pop(name) for name in [*sys.modules] if _is_vllm(name)}


def _prove(files: dict[str, str], folder: Path, names: Sequence[str]) -> None:
    """The modules that came from files are those of the part, all of them: so no engine, config or platform."""
    expected = {_module(name): str(folder / name) for name in names}
    if files != expected:
        wrong = sorted({*files.items()} ^ {*expected.items()})
        raise PP3Error(f"the files imported are not those of the part: {wrong}")


def _forbid(modules: dict[str, ModuleType]) -> tuple[str, ...]:
    done = []
    for module, names in shims.FORBIDDEN.items():
        for name in names:
            if module in modules and hasattr(modules[module], name):
                setattr(modules[module], name, shims.forbidden(f"{module}.{name}"))
                done.append(f"{module}.{name}")
    verifier = modules.get(_module(pins.VERIFIER))
    if verifier is not None:
        vars(verifier)["rejection_sample"], refused = shims.without_watermark(verifier.rejection_sample)
        done += [f"{verifier.__name__}.rejection_sample({argument}=)" for argument in refused]
    return tuple(sorted(done))


def _need(*modules: str) -> None:
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise PP3Error(
                f"{error.name} is not installed, and the image needs it: pip install 'pp3[kernels]'", Exit.UNAVAILABLE
            ) from None
