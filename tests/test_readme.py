"""The README says what is so: its commands run, the campaign loads, the table is computed. Links: test_docs.py."""

import re
import shutil
import subprocess
import warnings
from pathlib import Path

import documents
import pytest

from pp3.harness import campaign, cli
from pp3.harness.evidence import survey_table, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "README.md"
README = PAGE.read_text("utf-8")
COMMANDS = documents.commands(PAGE)
INLINE = re.findall(r"`((?:make|pp3) [a-z][^`]*)`", README)
LONG = {  # not run here, and why
    "make qualify": "half a minute; test_cli_run.py runs a small campaign to its receipt",
    "make test": "this suite",
    "make test-gpu": "needs a GPU",
    "pp3 qualify --require-gpu": "needs a GPU",
    "make image VERSION=0.33.0": "fetches a wheel; test_image_fetch.py and test_image_real.py hold it",
    "pp3 qualify --sampler vllm-v2-0.33.0 --device cuda --detect 0.005": "needs a GPU and the image",
    "pp3 survey --device cuda --jobs 4": "needs a GPU",
    "pp3 exhaustive --device cpu": "two minutes; test_exhaustive_command.py runs the command on given integers",
    "pp3 faults --jobs 2": "minutes; test_faults_matrix.py runs a part, and all of it under soak",
    "pp3 qualify --campaign mine.toml --device cpu": "a minute; the campaign is loaded below",
    "pp3 replay RECEIPT": "takes a campaign's receipt, half a minute; test_replay.py runs smaller ones",
    "pp3 compare OLD NEW": "takes two receipts; test_regression_docs.py types the worked example",
    "pp3 repro RECEIPT --check ID": "takes a receipt that fails; test_repro.py runs what it writes",
    "pp3 sign RECEIPT --key KEY": "needs a key; test_signature.py makes keys and signs",
    "pp3 verify RECEIPT --key ALLOWED_SIGNERS": "needs a signature; test_signature.py verifies them",
    "pp3 report RECEIPT --junit checks.xml": "test_report_junit.py writes it and reads it",
    "./pp3_locked.sh --qualify --detach": "test_locked_detached.py runs the wrapper under a real flock and tmux",
    "pp3 qualify --dir DIR --gpus all": "needs a GPU; test_pieces.py runs processes in place of GPUs",
    "pp3 status DIR": "takes a campaign's folder; test_status.py tables one",
    "pp3 merge DIR": "takes a campaign's folder; test_pieces_merged.py merges some",
    "pp3 ledger check": "needs the committed receipts; test_ledger.py holds the committed ledger",
}
ON_A_CPU = {"--backend cuda": "--backend reference"}  # what takes the place of a GPU here


def test_the_evidence_table_is_the_computed_one() -> None:
    """Whatever is committed is listed, current or stale as this tree stands; a stale receipt warns."""
    rows = table.rows()
    between = README.split(table.BEGIN)[1].split(table.END)[0].strip()
    assert between == table.render(rows), "run make evidence"
    for row in rows:
        if row.stale:
            warnings.warn(f"{row.receipt} is {row.state}", table.StaleEvidence, stacklevel=1)


def test_the_survey_table_is_the_computed_one() -> None:
    """Of the newest survey that is committed, in the first screen."""
    between = README.split(survey_table.BEGIN)[1].split(survey_table.END)[0].strip()
    assert between == survey_table.render(ROOT), "run make evidence"
    assert README.index(survey_table.BEGIN) < README.index("## ")


def test_committed_evidence_verifies(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every committed receipt has its page and is authentic; one of other sources may say that its own verify it."""
    monkeypatch.chdir(ROOT)
    for row in table.rows():
        required = [] if row.kind == "survey" else ["--require-verdict", row.verdict]
        code = cli.run(["verify", str(ROOT / row.receipt), *required])
        said = capsys.readouterr().out
        other = row.state.startswith("stale") and "made by other sources" in said
        assert code == (3 if row.state.startswith("superseded") else 0) or other, said
        assert row.page, f"{row.receipt} has no page in reports/evidence"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of this checkout in which a reader types, with a receipt of its own."""
    tree = tmp_path_factory.mktemp("readme")
    for name in ("pp3", "harness", "kernels", "targets", "tests/vectors"):
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "pyproject.toml"):
        shutil.copy(ROOT / name, tree)
    done = typed("pp3 oracle --device cpu", tree)
    assert done.returncode == 0, done.stderr
    return tree


def typed(line: str, checkout: Path) -> documents.Done:
    """A line of the README in a checkout without a GPU; RECEIPT is that of the bridge."""
    for shown, instead in ON_A_CPU.items():
        line = line.replace(shown, instead)
    if "RECEIPT" in line:
        receipt = min((checkout / "receipts" / "runs").glob("*.json"))
        line = line.replace("RECEIPT", receipt.relative_to(checkout).as_posix())
    return documents.typed(line, checkout, checkout)


PRINTED = {
    "conform": r"propose.json: (\d+) of \1 passed on reference\nverify.json: (\d+) of \2 passed on reference\n",
    "oracle": r"PASS: the NumPy reference of pp3-top32 .*\nreceipt .*\npage .*\ntook .* s\n",
    "history": r"measured +kind .*\n[-0-9]{10} [0-9:]{5} +oracle +PASS .*\n",
    "verify": r"( 1 ok .*\n.*\n)VERIFIED verdict=PASS sha256=[0-9a-f]{64} assurance=self-attested current=yes\n",
    "report": r"page.html\n",
    "init": r"mine/campaign.toml\nmine/my_sampler.py\ntry them with .*\n",
    "qualify": r"PASS: no evidence against my-sampler 0.1 on a CPU .*\n",
    "explain": r"(token: statistics|exact:draws: enumerations).*\nif it fails    FAIL; a PASS needs it\n",
    "doctor": r"ok +python +3.*\na campaign on a CPU can run here: 0 problems, \d+ notes\n",
    "samplers": r"here +sampler +what it is\n(yes|no ) +torch-multinomial .*\n",
}


@pytest.mark.parametrize("line", [line for line in COMMANDS if line not in LONG])
def test_each_command_does_what_it_is_shown_for(line: str, checkout: Path) -> None:
    """Typed as it stands, but for a GPU and the receipt's name; a new command needs what it prints, or a reason."""
    done = typed(line, checkout)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(PRINTED[line.split()[1]], done.stdout, re.DOTALL), done.stdout
    if "--out" in line:
        assert (checkout / line.split()[-1]).read_text("utf-8").startswith("<!DOCTYPE html>")


def test_what_is_left_out_is_still_shown() -> None:
    """A reason for a command that is gone goes too."""
    assert set(LONG) <= set(COMMANDS)
    assert [shown for shown in ON_A_CPU if not any(shown in line for line in COMMANDS)] == []


def test_make_evidence_writes_the_table_that_pp3_evidence_prints(tmp_path: Path) -> None:
    """On a copy of the README, with the rule's own command."""
    assert "make evidence" in INLINE
    make = ["make", "-n", "--no-print-directory", "evidence"]
    rule = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = rule.splitlines()[-1]
    assert command == ".venv/bin/pp3 evidence --write README.md"
    shutil.copy(ROOT / "README.md", tmp_path)
    printed = typed("pp3 evidence", ROOT)
    written = typed(f"pp3 evidence --write {tmp_path / 'README.md'}", ROOT)
    assert (printed.returncode, written.returncode) == (0, 0), printed.stderr + written.stderr
    head, rest = README.split(table.BEGIN)
    tail = rest.split(table.END)[1]
    text = f"{head}{table.BEGIN}\n{printed.stdout.rstrip()}\n{table.END}{tail}"
    assert (tmp_path / "README.md").read_text("utf-8") == text


@pytest.mark.parametrize("line", [line for line in [*COMMANDS, *INLINE] if line.startswith("make ")])
def test_each_make_target_exists(line: str) -> None:
    """A renamed target breaks the README."""
    done = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_campaign_loads(tmp_path: Path) -> None:
    """The example file is a campaign."""
    [block] = [block for block in documents.blocks(PAGE) if block.language == "toml"]
    path = tmp_path / "mine.toml"
    path.write_text(block.text, "utf-8")
    loaded = campaign.load(path)
    assert [target.name for target in loaded.targets] == ["sparse-tail", "mine"]
