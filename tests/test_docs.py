"""Every page of docs does what it says: its blocks run, its links lead somewhere, the reference is the code's."""

import re
from pathlib import Path

import click
import documents
import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.reference import pages as reference

TESTS = Path(__file__).resolve().parent
ELSEWHERE = {  # pages that a test of their own plays
    "README.md": "test_readme.py",
    "docs/engine.md": "test_engine_docs.py",
    "docs/regressions.md": "test_regression_docs.py",
    "docs/reports.md": "test_report_several.py",
}
TUTORIAL = "docs/tutorial.md"
TYPED = "typed by test_readme.py"
NOT_RUN = {  # commands that no page's test types, and why
    "make image VERSION=0.33.0": "fetches a wheel; test_image_fetch.py and test_image_real.py hold it",
    "pp3 ledger check": "needs the committed receipts; test_ledger.py holds the committed ledger",
    "pp3 qualify --path wire": "a minute; test_wire_path.py runs a small campaign over each proxy",
    "pp3 qualify --path wire --proxy process": "likewise",
    "pp3 survey --device cpu --requests 200 --sampler torch-multinomial": "test_survey_receipt.py runs small surveys",
    "pp3 init mine": TYPED,
    "pp3 qualify --campaign mine/campaign.toml": TYPED,
}
PAGES = {documents.name_of(page): page for page in documents.pages()}
PLAYED = [
    name
    for name, page in PAGES.items()
    if name not in ELSEWHERE and any(block.language in documents.RUN for block in documents.blocks(page))
]
KINDS = ("Tutorial", "How-to", "Reference", "Explanation", "Evidence and validation", "Decisions")


@pytest.mark.parametrize("name", PLAYED)
def test_a_page_does_what_it_says(name: str, tmp_path: Path) -> None:
    """From top to bottom, in an empty folder, without a GPU."""
    left_out = {line for line, why in NOT_RUN.items() if why != TYPED or name != TUTORIAL}
    documents.play(PAGES[name], tmp_path, left_out)


def test_every_block_is_of_a_language_that_says_whether_it_runs() -> None:
    """What is not to be run is `text`; a block that names no language says nothing."""
    known = {*documents.RUN, "text"}
    found = {
        f"{name}:{block.line}: {block.language}"
        for name, page in PAGES.items()
        for block in documents.blocks(page)
        if block.language not in known
    }
    assert found == set()


def test_what_is_left_out_is_shown_and_what_is_played_elsewhere_is_played() -> None:
    """A reason for a command that is gone goes too; a test that plays a page names it."""
    shown = {line for name, page in PAGES.items() if name not in ELSEWHERE for line in documents.commands(page)}
    assert NOT_RUN.keys() <= shown
    readme = documents.commands(PAGES["README.md"])
    assert [line for line, why in NOT_RUN.items() if why == TYPED and line not in readme] == []
    for name, test in ELSEWHERE.items():
        assert Path(name).name in (TESTS / test).read_text("utf-8"), name


@pytest.mark.parametrize("name", PAGES)
def test_every_command_shown_has_the_options_it_is_shown_with(name: str) -> None:
    """Those too that are not run, and those in prose."""
    text = PAGES[name].read_text("utf-8")
    for said in re.findall(r"^ *pp3 ([a-z][^\n#]*)|`pp3 ([a-z][^`]*)`", text, flags=re.MULTILINE):
        words = " ".join(said).replace("[", " ").replace("]", " ").split()
        command: click.Command = cli.commands
        while words and isinstance(command, click.Group):
            assert words[0] in command.commands, f"{name}: pp3 {words}"
            command = command.commands[words.pop(0)]
        known = {option for one in command.params for option in one.opts} | {"--help"}
        assert {word for word in words if re.match(r"--[a-z]", word)} <= known, f"{name}: {words}"


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(name: str) -> None:
    page = PAGES[name]
    for link in documents.links(page):
        path, _, anchor = link.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{name}: {link}"
        assert not anchor or anchor in documents.anchors(to), f"{name}: {link}"


def test_the_index_lists_every_page_once_under_its_kind() -> None:
    """Every page of docs, and every record of a decision, by one link."""
    index = PAGES["docs/README.md"]
    headings = re.findall(r"^## (.+)$", index.read_text("utf-8"), flags=re.MULTILINE)
    assert tuple(headings) == KINDS
    listed = [(index.parent / link).resolve() for link in documents.links(index)]
    inside = [path for path in listed if path.suffix == ".md" and path.is_relative_to(documents.DOCS)]
    assert sorted(inside) == sorted(page for page in PAGES.values() if page not in (index, PAGES["README.md"]))


@pytest.mark.parametrize("name", reference.PAGES)
def test_the_reference_is_what_the_code_says(name: str) -> None:
    """Mend a difference by reference.COMMAND."""
    assert (documents.DOCS / "reference" / name).read_text("utf-8") == reference.render(name), reference.COMMAND


def test_the_reference_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nor on where it is written."""
    monkeypatch.setenv("COLUMNS", "40")
    assert [path.name for path in reference.write(tmp_path)] == list(reference.PAGES)
    assert (tmp_path / "cli.md").read_text("utf-8") == reference.render("cli.md")


def test_the_exit_codes_are_the_code_s() -> None:
    """Each once, in order, and no other."""
    rows = re.findall(r"^\| (\d+) \|", PAGES["docs/exit-codes.md"].read_text("utf-8"), flags=re.MULTILINE)
    assert [int(row) for row in rows] == sorted(Exit)


def test_a_fault_in_a_page_is_found(tmp_path: Path) -> None:
    """An exit code, a line of output and a file that are not so; digits and line ends may differ."""
    for text, said in (
        ("```sh\ntrue  # 1\n```\n", "exit 0"),
        ("```sh\necho PASS 7 of 9\n```\n\n```text\nFAIL\n```\n", "not printed: FAIL"),
        ("```sh\necho one two\n```\n\n```text\ntwo\n...\none\n```\n", "not printed: one"),
        ("```python\nraise SystemExit('no')\n```\n", "no"),
        ("```python\n# a/b.py\nx = 1\n```\n\n```sh\ntest -e a/c.py\n```\n", "exit 1"),
    ):
        with pytest.raises(AssertionError, match=said):
            documents.play_blocks("planted.md", documents.blocks_of(text), tmp_path)
    good = "```sh\necho PASS 7 of 9\n```\n\n```text\nPASS 8\nof 9\n```\n"
    assert len(documents.play_blocks("planted.md", documents.blocks_of(good), tmp_path)) == 1
