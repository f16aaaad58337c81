"""A campaign over the wire as planned: what it injects, options that do not go together, and what a path decides."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wire_campaign import SMALL, campaign

from pp3.harness import campaign as campaigns
from pp3.harness import cli
from pp3.harness.campaign import plan_sha256
from pp3.harness.errors import CampaignError, Exit
from pp3.harness.seeds import Seed
from pp3.harness.transport import losses, path, wire_plan
from pp3.harness.transport.faults import KINDS
from pp3.harness.transport.place import Place
from pp3.harness.verdict import Verdict


def test_a_plan_over_the_wire_rebuilds() -> None:
    """With its place, its rates and its patterns; the seed differs from that of the campaign without a path."""
    for place in Place:
        mine = campaign(place)
        assert plan_sha256(wire_plan.of_any_plan(mine.plan)) == plan_sha256(mine)
        assert [target.patterns for target in mine.targets] == [
            ("none", "every"),
            ("first", "middle", "last", "every"),
        ]
    plain = campaigns.of_document(SMALL, "test")
    assert wire_plan.of_any_plan(plain.plan).plan == plain.plan
    assert plan_sha256(plain) != plan_sha256(campaign())
    with pytest.raises(CampaignError, match="proxy"):
        wire_plan.of_any_plan(plain.plan | {"path": {"proxy": "pigeon"}})
    with pytest.raises(CampaignError, match="1 to 4 rows"):
        campaign(batch_sizes=[2, 5])


REFUSED: dict[str, tuple[list[str], str]] = {
    "a proxy without a path": (["--proxy", "thread"], "--proxy is of --path wire"),
    "another sampler": (["--path", "wire", "--sampler", "multinomial"], "--sampler and --path wire"),
    "pieces": (["--path", "wire", "--dir", "x"], "cannot be combined"),
    "an image": (["--path", "wire", "--image", "x"], "--image and --path wire"),
}


@pytest.mark.parametrize(("options", "said"), REFUSED.values(), ids=REFUSED)
def test_options_that_do_not_go_together(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 2, one line, nothing begun."""
    monkeypatch.chdir(tmp_path)
    assert cli.run(["qualify", *options]) == Exit.USAGE
    printed = capsys.readouterr()
    assert said in printed.err
    assert list(tmp_path.iterdir()) == []


def judged(change: Callable[[dict[str, Any]], object], measure: Any) -> Any:
    """The judgement of a campaign over the wire whose path is as it should be, but for a change."""
    from pp3.harness.transport.command import judge

    chosen = campaign(targets=["disjoint"], requests=6_000, paired=20, batch_sizes=[2])
    seed = Seed.of(plan_sha256(chosen), 5)
    said = losses.implied(chosen, seed) | {"altered": 0, "proxies": 1}
    counted = dict.fromkeys(path.SEEN, 0)
    for kind in KINDS:
        counted[path.LOSSES[kind]] += said["injected"][kind.value]
    said["counted"] = counted
    change(said)
    return judge(chosen, measure(chosen, seed), said)


WORSE: dict[str, Callable[[dict[str, Any]], object]] = {
    "a proposal was altered": lambda said: said.update(altered=1),
    "one was lost that should not": lambda said: said["counted"].update(unexpected=1),
    "one is missing in a count": lambda said: said["counted"].update(refused=said["counted"]["refused"] - 1),
    "a proxy was down": lambda said: said["counted"].update({"proxy-down": 1}),
}


def test_a_path_as_injected_leaves_the_verdict(measure: Any) -> None:
    """The battery's, with a word on the way."""
    found = judged(lambda said: None, measure)
    assert found.verdict in (Verdict.PASS, Verdict.INCONCLUSIVE)
    assert "Proposals went over the wire through a proxy in a thread; the " in found.sentence
    assert found.sentence.endswith("no other. Self-attested.")


@pytest.mark.parametrize("change", WORSE.values(), ids=WORSE)
def test_a_path_that_lost_otherwise_is_a_fail(change: Callable[[dict[str, Any]], object], measure: Any) -> None:
    """Whatever the battery says."""
    found = judged(change, measure)
    assert found.verdict is Verdict.FAIL
    assert found.sentence.startswith("FAIL: proposals went over the wire through a proxy in a thread, and ")
