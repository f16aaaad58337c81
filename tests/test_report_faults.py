"""The page of planted faults: every fault by every check, the escaped first, from what `pp3 faults --json` prints."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from pp3.harness import cli
from pp3.harness.errors import Exit
from pp3.harness.faults.outcome import Outcome, Row
from pp3.harness.report.faults import Fault, page, read


def row(id: str, verdict: Outcome, **more: Any) -> Row:
    """One row of the matrix."""
    made: dict[str, Any] = {
        "about": f"about {id}",
        "cause": "residual",
        "caught": 1,
        "caught_by": ["token", "fit"],
        "effect": "off by 0.1",
        "marginal": True,
        "report": "",
        "requests": 20_000,
        "seconds": 1.5,
        "seeds": 1,
        "ships": {"cosine": True, "sigmas": False},
        "sole": False,
        "witness": "token",
    }
    return Row(id=id, verdict=verdict, **made | more)


ROWS = [
    row("first", Outcome.CAUGHT),
    row("second", Outcome.CAUGHT, witness="length", caught_by=["length"], marginal=False),
    row("last", Outcome.ESCAPED, witness="kept", caught_by=["fit"], caught=0, marginal=False),
    row("exact", Outcome.EXACT_ONLY, witness="exact:draws", caught_by=["exact:draws"], marginal=False),
    row("<b>bits", Outcome.CAUGHT, marginal=None, ships=None, requests=0, caught_by=["bits"], witness="bits"),
    row("control", Outcome.CONTROL_PASS, witness="", caught_by=[], ships={"cosine": False, "sigmas": False}),
]


def printed(rows: list[Row], **more: Any) -> bytes:
    """What the command prints."""
    return json.dumps({"faults": [one.plain() | more for one in rows]}).encode()


def html_of(rows: list[Row]) -> str:
    """The page of some rows."""
    content = printed(rows)
    return page(content, read(Path("faults.json"), content))


def lines(html: str) -> dict[str, list[str]]:
    """Each fault's cells, as words, by id, in their order."""
    matrix = html[html.index('aria-label="Faults by checks"') :]
    found = {}
    for line in re.findall(r"<tr>(<th scope=\"row\">.*?)</tr>", matrix, re.DOTALL):
        cells = [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)]
        found[unescape(re.findall(r"<th scope=\"row\">(.*?)<br>", line)[0])] = cells
    return found


def test_the_shape_is_that_of_the_command() -> None:
    """A field more or less in what is printed is one here."""
    assert list(Fault.__struct_fields__) == list(ROWS[0].plain())


def test_the_escaped_come_first_and_the_controls_last() -> None:
    """And the others in the order of the catalogue."""
    html = html_of(ROWS)
    assert list(lines(html)) == ["last", "first", "second", "exact", "<b>bits", "control"]
    assert html.index('<h2 id="escaped">') < html.index('<h2 id="matrix">')
    assert "1 of 5 faults, or controls, did not come out as they must: last." in html
    assert '<h1 class="fail">' in html


def test_each_cell_says_what_the_check_did() -> None:
    """In a sign, and in words for who cannot see it."""
    html = html_of(ROWS)
    heads = re.findall(r'<th scope="col"><span>(.*?)</span>', html)
    found = lines(html)
    assert heads[0] == "fit"  # the most frequent
    assert found["first"][2 + heads.index("token")] == "◆named, caught"
    assert found["first"][2 + heads.index("fit")] == "●also caught"
    assert found["last"][2 + heads.index("kept")] == "✗named, missed"
    assert found["last"][:2] == ["✗ ESCAPED", "misses"]
    assert found["second"][2 + heads.index("fit")] == ""
    assert found["<b>bits"][1] == "none"
    assert "<b>bits" not in html


def test_all_caught_is_said_in_the_first_sentence() -> None:
    """With how many controls there were."""
    html = html_of([one for one in ROWS if one.good])
    assert "all 4 planted faults were caught by the check that is named for each; of 1 controls none failed." in html
    assert '<h1 class="pass">' in html
    assert html.index("✓ None.") < html.index('<h2 id="matrix">')


def test_a_control_that_fails_is_one_of_the_escaped() -> None:
    """It says which check rejected what is right."""
    failed = row("control", Outcome.CONTROL_FAIL, witness="", caught_by=["fit"], caught=0)
    found = lines(html_of([ROWS[0], failed]))
    assert list(found) == ["control", "first"]
    assert "●rejected" in found["control"]


def test_peers_are_counted_over_faults_with_counts() -> None:
    """Controls, exact ones and those without requests are no faults that a peer could ship."""
    html = html_of(ROWS)
    assert re.search(r"<tr><td>cosine</td><td class=n>3</td><td class=n>3</td></tr>", html)
    assert re.search(r"<tr><td>sigmas</td><td class=n>0</td><td class=n>3</td></tr>", html)


def test_seconds_are_no_part_of_the_page() -> None:
    """Two runs of the same faults differ in nothing but the digest of what was printed."""
    slow = printed(ROWS, seconds=99.0)
    digest = re.compile("sha256 [0-9a-f]{64}")
    assert digest.sub("", page(slow, read(Path("x"), slow))) == digest.sub("", html_of(ROWS))


def test_the_command_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it takes a receipt."""
    path = tmp_path / "faults.json"
    path.write_bytes(printed(ROWS) + b"\n")
    assert cli.run(["report", str(path)]) == Exit.OK
    assert capsys.readouterr().out == f"{path.with_suffix('.html')}\n"
    assert cli.run(["report", str(path)]) == Exit.USAGE
    assert "exists already; give another file with --out" in capsys.readouterr().err
