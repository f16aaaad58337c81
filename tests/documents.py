"""The blocks of the README and of docs, and the one way in which they are run.

A page is typed from top to bottom in one folder. Of an `sh` block every line is a command; ` # 1` behind it is the
exit code that is to come. A `python` or `toml` block whose first line is `# NAME` is the file of that name; any other
`python` block is run, any other `toml` block with a campaign's keys is read as one. What is shown of a command's
output stands in a `text` block behind it: each line, but for digits, in its order; `...` stands for what is left out.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pp3.harness import campaign
from pp3.harness.document import promised

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RUN = ("sh", "python", "toml")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
BEHIND = re.compile(r"(.*?)(?:\s+# (?:(\d+)|.*))?")  # a command, and behind it an exit code or a remark
FUNCTIONS = f"""
pp3() {{ '{sys.executable}' -P -m pp3.harness.cli "$@"; }}
python3() {{ '{sys.executable}' "$@"; }}
"""
CAMPAIGN = {field.name for field in msgspec.structs.fields(campaign.CampaignSpec)}
LONGEST = 240  # seconds of a line
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    line: int  # of its fence

    @property
    def commands(self) -> list[str]:
        """Of an sh block, with the exit codes behind them."""
        return [line for line in self.text.splitlines() if line.strip() and not line.startswith("#")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """A command of a page, and what became of it."""

    line: str
    done: Done

    @property
    def said(self) -> str:
        """Both streams."""
        return self.done.stdout + self.done.stderr


def pages() -> list[Path]:
    """The README and every page of docs."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def name_of(page: Path) -> str:
    """Relative to the checkout."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """In order."""
    return blocks_of(page.read_text("utf-8"))


def blocks_of(text: str) -> list[Block]:
    """Of a page's text."""
    return [
        Block(language=found[1], text=found[2], line=text.count("\n", 0, found.start()) + 1)
        for found in FENCE.finditer(text)
    ]


def anchors(page: Path) -> set[str]:
    """What a link to a page may name: its headings as GitHub writes them, a repeated one with a number."""
    found: dict[str, int] = {}
    said = set()
    for title in re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), flags=re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)|[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
        number = found.get(words, 0)
        found[words] = number + 1
        said.add(f"{words}-{number}" if number else words)
    return said


def links(page: Path) -> list[str]:
    """Where a page points to, but for other hosts."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def commands(page: Path) -> list[str]:
    """Every command of a page, without its exit code."""
    return [_parted(line)[0] for block in blocks(page) if block.language == "sh" for line in block.commands]


def typed(line: str, folder: Path, tree: Path = ROOT) -> Done:
    """A line as it stands, in a folder, with the pp3 of a tree and no GPU."""
    return subprocess.run(
        ["bash", "-c", FUNCTIONS + line],
        cwd=folder,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )


def play(page: Path, folder: Path, left_out: Container[str] = ()) -> list[Typed]:
    """Type a page from top to bottom, but for what is left out; AssertionError names what does not do as it says."""
    return play_blocks(name_of(page), blocks(page), folder, left_out)


def play_blocks(name: str, given: list[Block], folder: Path, left_out: Container[str] = ()) -> list[Typed]:
    """Type the blocks of a page of this name."""
    came: list[Typed] = []
    since: list[Typed] = []  # the last block of commands
    for block in given:
        where = f"{name}:{block.line}"
        if block.language == "sh":
            since = [_command(line, folder, where) for line in block.commands if _parted(line)[0] not in left_out]
            came += since
        elif block.language == "python":
            _python(block.text, folder, where)
        elif block.language == "toml":
            _toml(block.text, folder)
        elif block.language == "text" and since:
            missing = not_shown(block.text, "".join(one.said for one in since))
            assert missing is None, f"{where}: not printed: {missing}"
            since = []
    return came


def not_shown(shown: str, printed: str) -> str | None:
    """The first part of a text block that was not printed in its place; lines may be broken elsewhere."""
    rest = _plain(printed)
    for part in _parts(shown):
        at = rest.find(part)
        if at < 0:
            return part
        rest = rest[at + len(part) :]
    return None


def _parts(shown: str) -> Iterator[str]:
    yield from filter(None, (_plain(part) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)))


def _plain(text: str) -> str:
    """Without what differs from run to run: digests, digits, and where lines end."""
    return " ".join(re.sub(r"\d+", "", re.sub(r"[0-9a-f]{64}", "", text)).split())


def _parted(line: str) -> tuple[str, int]:
    """A command, and its exit code."""
    said = BEHIND.fullmatch(line)
    assert said
    return said[1], int(said[2] or 0)


def _command(line: str, folder: Path, where: str) -> Typed:
    command, code = _parted(line)
    done = typed(command, folder)
    assert done.returncode == code, f"{where}: {command}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return Typed(line=command, done=done)


def _python(text: str, folder: Path, where: str) -> None:
    if _saved(text, folder):
        return
    (folder / "block.py").write_text(text, "utf-8")
    done = typed("python3 block.py", folder)
    assert done.returncode == 0, f"{where}: {done.stderr}"


def _toml(text: str, folder: Path) -> None:
    """A file, or a campaign if all its keys are a campaign's; CampaignError if that is not one."""
    document = tomllib.loads(text)
    if not _saved(text, folder) and document.keys() <= CAMPAIGN:
        campaign.of_document(document | promised(document, "a block"), "a block")


def _saved(text: str, folder: Path) -> bool:
    """Whether a block is a file, which is then written."""
    named = NAMED.match(text)
    if named:
        (folder / named[1]).parent.mkdir(parents=True, exist_ok=True)
        (folder / named[1]).write_text(text, "utf-8")
    return named is not None
