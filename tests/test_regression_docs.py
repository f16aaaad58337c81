"""docs/regressions.md says what is so: its worked example is typed line by line, and prints what it shows."""

from pathlib import Path

import documents

PAGE = documents.DOCS / "regressions.md"


def test_the_worked_example_runs(tmp_path: Path) -> None:
    """Every line, its exit code as written; the lines of the comparison that the page shows, in their order."""
    came = documents.play(PAGE, tmp_path)
    printed = {" ".join(one.line.split()[:2]): one.said for one in came}
    assert len(came) == len(documents.commands(PAGE)) == 9
    assert "my_sampler.py is another file here" in printed["pp3 replay"]
    assert len(printed["pp3 history"].splitlines()) == 3
