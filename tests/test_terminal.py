"""What is said on a terminal fits it, whatever it is; elsewhere it is plain text. Seen in pseudo-terminals."""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pp3.harness import scoreboard, terminal
from pp3.harness.battery import TestResult as Judged
from pp3.harness.cells import Event
from pp3.harness.design import Method
from pp3.harness.power import Effect, Unit
from pp3.harness.terminal import Column, Fit
from pp3.harness.trial.findings import Effect as Furthest
from pp3.harness.verdict import Verdict

ROOT = Path(__file__).resolve().parents[1]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLUMNS = [Column(head="verdict"), Column(head="name", fit=Fit.CUT), Column(head="reason", fit=Fit.FOLD)]
ROWS = [["PASS", "a-name" * 30, "for no reason " * 20], ["FAIL", "<script>", "\x1b[31mred\u202e\n"]]
SHOWN = f"""
import click
from pp3.harness import terminal
from pp3.harness.terminal import Column, Fit
columns = [Column(head="verdict"), Column(head="name", fit=Fit.CUT), Column(head="reason", fit=Fit.FOLD)]
for line in [*terminal.table(columns, {ROWS!r}), *terminal.sentence("REGRESSION: " + "worse " * 30)]:
    click.echo(line)
"""
PROGRESS = """
from pp3.harness.progress import Bar
with Bar() as bar:
    bar.update("a stage of a rather long name", 1_234_567, 100_000_000)
    bar.say("a line")
"""


def environment(**more: str) -> dict[str, str]:
    """Of a terminal that knows colours, unless it is told otherwise."""
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    mine = {"CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    return kept | mine | more


def on_terminal(*arguments: str, columns: int = 80, more: dict[str, str] | None = None) -> str:
    """What Python prints, stdout and stderr, in a pseudo-terminal of some width."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-P", *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**(more or {}))
    ) as child:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            parts.append(part)
        child.wait()
    os.close(ours)
    return b"".join(parts).decode().replace("\r\n", "\n")


def piped(*arguments: str, **more: str) -> str:
    """What Python prints where there is no terminal."""
    done = subprocess.run(
        [sys.executable, "-P", *arguments], env=environment(**more), capture_output=True, text=True, check=False
    )
    return done.stdout


def widest(text: str) -> int:
    """Columns of the longest line, without its colours."""
    return max(cell_len(line) for line in ESCAPES.sub("", text).splitlines())


def test_known_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Middles are left out; prose is broken at spaces, long words at slashes, then at hyphens."""
    assert terminal.shorten("x" * 1_000_000, 9) == "xxx...xxx"  # at once, however long
    assert terminal.shorten("abcdefghij", 10) == "abcdefghij"
    assert terminal.shorten("abcdefghij", 9) == "abc...hij"
    assert terminal.shorten("\u65e5\u672c\u65e5\u672c", 7) == "\u65e5...\u672c"  # two columns each
    assert terminal.shorten("abcdefghij", 2) == ".."
    assert terminal.fold("one two three", 8) == ["one two", "three"]
    assert terminal.fold("rows-of-12/depth-0/token", 12) == ["rows-of-12/", "depth-0/", "token"]
    assert terminal.fold("rows-of-12/depth-0", 9) == ["rows-of-", "12/", "depth-0"]
    monkeypatch.setenv("COLUMNS", "40")
    assert terminal.labelled("label", "one two three four five six") == [
        "label          one two three four five",
        "               six",
    ]
    assert terminal.table(COLUMNS[:2], [["PASS", "x" * 40]]) == [
        "verdict  name",
        "PASS     xxxxxxxxxxxxxx...xxxxxxxxxxxxxx",
    ]
    assert terminal.table([Column(head="a"), Column(head="b")], [["1", ""], ["2", ""]]) == ["a", "1", "2"]


@given(
    rows=st.lists(st.lists(st.text(max_size=150), min_size=5, max_size=5), max_size=4),
    columns=st.integers(min_value=20, max_value=130),
)
def test_a_table_fits_whatever_it_holds(rows: list[list[str]], columns: int) -> None:
    """Any text in columns that give way: no line beyond the width, nothing that moves a cursor, every row there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        lines = terminal.table(
            [Column(head=str(at), fit=Fit.CUT if at % 2 else Fit.FOLD, right=at == 2) for at in range(5)], rows
        )
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if cell_len(line) > columns] == []
    assert len(lines) >= len(rows)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_stdout_cannot_encode_is_an_escape(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a name never ends a command."""
    with Path(os.devnull).open("w", encoding=encoding) as out, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        text = terminal.clean("\u65e5 \u00e9 \U0001f600 \x1b[2J \u2028")
    text.encode(encoding)
    assert "\\x1b[2J" in text
    assert "\\u2028" in text


def test_on_a_terminal_words_have_colours_and_lines_fit() -> None:
    said = on_terminal("-c", SHOWN)
    assert "\x1b[32m\x1b[1mPASS" in said
    assert "\x1b[31m\x1b[1mFAIL" in said
    assert "\x1b[31m\x1b[1mREGRESSION" in said
    assert "\\x1b[31mred\\u202e\\n" in said
    assert widest(said) <= 80
    assert widest(on_terminal("-c", SHOWN, columns=50)) <= 50


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_declined(name: str, value: str) -> None:
    """And nothing else is said then."""
    plain = on_terminal("-c", SHOWN, more={name: value})
    assert "\x1b" not in plain
    assert plain == ESCAPES.sub("", on_terminal("-c", SHOWN))


def test_without_a_terminal_a_sentence_is_one_line_and_a_table_has_80_columns() -> None:
    said = piped("-c", SHOWN)
    assert "\x1b" not in said
    *lines, sentence = said.splitlines()
    assert sentence == "REGRESSION: " + "worse " * 30
    assert max(map(cell_len, lines)) <= 80
    assert max(map(cell_len, piped("-c", SHOWN, COLUMNS="100").splitlines()[:-1])) > 80


def test_progress_is_for_a_terminal_and_fits_it() -> None:
    assert piped("-c", PROGRESS) == ""
    said = on_terminal("-c", PROGRESS)
    assert "1234567/100000000" in said
    assert widest(said.replace("\r", "\n")) <= 80
    assert "\x1b[3" not in on_terminal("-c", PROGRESS, more={"NO_COLOR": "1"})


def test_commands_fit_a_terminal(real_receipt: Path) -> None:
    """verify folds its steps, history its names; each step stays one line for a script, and the conclusion the last."""
    command = ["-m", "pp3.harness.cli"]
    shown = on_terminal(*command, "verify", str(real_receipt))
    assert widest(shown) <= 80
    assert "\x1b[32m\x1b[1mVERIFIED\x1b[0m verdict=\x1b[32m\x1b[1mPASS\x1b[0m" in shown
    lines = piped(*command, "verify", str(real_receipt)).splitlines()
    assert all(re.match(r"[ \d]\d (ok  |skip) \S", line) for line in lines[:-1])
    assert lines[-1].startswith("VERIFIED verdict=PASS sha256=")
    assert widest(on_terminal(*command, "history", str(real_receipt.parent))) <= 80


def judged(**more: object) -> Judged:
    """A check as a run judges it."""
    given: dict[str, object] = {
        "id": "rows-of-12/depth-0/token/cool",
        "event": Event.TOKEN,
        "method": Method.G,
        "df": 6,
        "events": 3_000,
        "g": 1_000.0,
        "p": 1e-200,
        "pearson": 1_000.0,
        "pearson_p": 1e-200,
        "alpha": 5e-7,
        "detectable": Effect(size=0.08, unit=Unit.TV),
        "excluded": Effect(size=0.3, unit=Unit.TV),
        "forbidden": 0,
        "worst": "",
        "reason": "",
        "required": True,
    }
    return Judged(**given | more)  # type: ignore[arg-type]  # names and types are TestResult's own


def board(verdict: Verdict, *tests: Judged, reasons: tuple[str, ...] = ()) -> str:
    """The scoreboard of some checks."""
    furthest = {tests[0].id: Furthest(tv=0.21, outcome="token 3", observed=0.16, expected=0.039)}
    return "\n".join(
        scoreboard.lines(
            scoreboard.Scores(
                verdict=verdict, reasons=reasons, tests=tests, off={tests[0].id: "0.21"}, furthest=furthest
            )
        )
    )


def test_too_few_events_have_a_way_out() -> None:
    """Where that is the reason, and nowhere else."""
    few = ("t/depth-0/token/position-0: too few events for two groups of cells",)
    assert "--requests N" in board(Verdict.INCONCLUSIVE, judged(), reasons=few)
    assert "--requests N" not in board(Verdict.FAIL, judged(), reasons=("t/depth-0/kept/position-0: off",))


def test_what_failed_where_and_how_much_comes_first() -> None:
    """The impossible first, then what is furthest below its level; sums of laws last; then every kind of check."""
    many = [judged(id=f"t/depth-0/token/{at}", p=10.0**-at) for at in range(10, 20)]
    said = board(
        Verdict.FAIL,
        judged(),
        *many,
        judged(id="fit", event=Event.FIT, p=0.0),
        judged(id="impossible", event=Event.LENGTH, forbidden=7, p=1.0),
        reasons=("named in the sentence", "fit: too bad", "the bits differ"),
    )
    lines = said.splitlines()
    assert lines[1].split()[:2] == ["failed", "check"]
    assert re.match(r"impossible +1 +5e-07 +7 outcomes of probability$", lines[2])
    assert re.match(r"rows-of-12/depth-0/token/ +0.21 +1e-200 +5e-07 +token 3: 0.16, 0.039", lines[4])
    assert lines[5] == "cool"
    assert "... and 5 more checks: the page has all" in lines
    assert "also           the bits differ" in lines
    assert "too bad" not in said
    assert re.search(r"^token +11 +11 +1e-200 +5e-07 +TV 0.08$", said, re.MULTILINE)
    assert re.search(r"^fit +1 +1 +<1e-300 ", said, re.MULTILINE)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("verdict", "made", "first"),
    [
        (Verdict.PASS, lambda: judged(p=0.5), "checks of"),
        (Verdict.TOLERATED, judged, "deviating check"),
        (Verdict.FAIL, judged, "failed check"),
    ],
    ids=["pass", "tolerated", "fail"],
)
def test_a_tolerated_deviation_is_no_failure(verdict: Verdict, made: Callable[[], Judged], first: str) -> None:
    assert board(verdict, made()).splitlines()[1].startswith(first)
