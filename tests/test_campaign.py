"""Campaign files: what is refused, in one line that names the value."""

from pathlib import Path
from typing import Any

import pytest
from campaign_files import OTHER, ROW, SMALL, load, own, row

from pp3 import targets
from pp3.harness import campaign as campaigns
from pp3.harness.echo import echo
from pp3.harness.errors import CampaignError, Exit

LONGEST_MESSAGE = 250  # whatever a file holds; beside its path
BAD: dict[str, tuple[str, list[str]]] = {
    "a misspelt key": ("reqests = 5", ["'reqests'", "did you mean 'requests'?"]),
    "a key like none": ("zzz = 5", ["'zzz'", "keys are name, targets, requests"]),
    "a misspelt key of a target": (own(vocabulary="64"), ["'vocabulary'", "did you mean 'vocab'?"]),
    "a misspelt key of a row": (own(row(weihgts="[1]")), ["'weihgts'", "did you mean 'weights'?"]),
    "an unknown target": ('targets = ["sparse-tial"]', ["'sparse-tial'", "did you mean 'sparse-tail'?"]),
    "an unknown target like none": ('targets = ["q"]', ["'q'", ", ".join(targets.NAMES)]),
    "requests as text": ('requests = "100"', ["requests = '100'", "Expected `int`, got `str`"]),
    "requests as a float": ("requests = 1e4", ["requests = 10000.0", "Expected `int`, got `float`"]),
    "requests as a boolean": ("requests = true", ["requests = True", "Expected `int`, got `bool`"]),
    "targets as text": ('targets = "disjoint"', ["targets = 'disjoint'", "Expected `array`, got `str`"]),
    "alpha as text": ('alpha = "1e-5"', ["alpha = '1e-5'", "Expected `float`, got `str`"]),
    "name as a number": ("name = 3", ["name = 3", "Expected `str`, got `int`"]),
    "a batch size as text": ('batch_sizes = [1, "2"]', ["batch_sizes[1]", "Expected `int`, got `str`"]),
    "requests 0": ("requests = 0", ["requests = 0", "from 1 to"]),
    "requests negative": ("requests = -5", ["requests = -5", "from 1 to"]),
    "requests beyond any run": ("requests = 9223372036854775807", ["requests = 9223372036854775807", "from 1 to"]),
    "paired negative": ("paired = -1", ["paired = -1", "from 0 to"]),
    "alpha 0": ("alpha = 0.0", ["alpha = 0.0", "at least 1e-30 and below 1"]),
    "alpha 1": ("alpha = 1", ["alpha = 1.0", "at least 1e-30 and below 1"]),
    "alpha 1.5": ("alpha = 1.5", ["alpha = 1.5", "at least 1e-30 and below 1"]),
    "alpha negative": ("alpha = -1e-5", ["alpha = -1e-05", "at least 1e-30 and below 1"]),
    "alpha NaN": ("alpha = nan", ["alpha = nan", "at least 1e-30 and below 1"]),
    "power 0": ("power = 0.0", ["power = 0.0", "between alpha (1e-05) and 1"]),
    "power 1": ("power = 1.0", ["power = 1.0", "between alpha (1e-05) and 1"]),
    "power below alpha": ("power = 1e-9", ["power = 1e-09"]),
    "pool 5": ("pool = 5", ["pool = 5", "at least 20"]),
    "detect negative": ("detect = -0.1", ["detect = -0.1", "0 (no promise) or a total variation below 1"]),
    "detect 1": ("detect = 1", ["detect = 1.0", "a total variation below 1"]),
    "detect NaN": ("detect = nan", ["detect = nan", "a total variation below 1"]),
    "detect as text": ('detect = "0.1"', ["detect = '0.1'", "Expected `float`, got `str`"]),
    "detect with another key": ("[detect]\ntotal = 0.1", ["unknown key 'total' of detect", "keys are tv, power"]),
    "detect with power alone": ("[detect]\npower = 0.9", ["[detect] has no tv", "the total variation that must be"]),
    "an empty table detect": ("[detect]", ["[detect] has no tv"]),
    "detect with tv as text": ('[detect]\ntv = "0.1"', ["detect.tv = '0.1'", "it must be a number"]),
    "detect with tv as a boolean": ("[detect]\ntv = true", ["detect.tv = True", "it must be a number"]),
    "detect with power as a list": ("[detect]\ntv = 0.1\npower = [0.9]", ["detect.power = [0.9]", "a number"]),
    "detect with tv beyond 1": ("[detect]\ntv = 1.5", ["detect = 1.5", "a total variation below 1"]),
    "detect with power 1": ("[detect]\ntv = 0.1\npower = 1", ["power = 1.0", "between alpha (1e-05) and 1"]),
    "power twice": ("power = 0.9\n[detect]\ntv = 0.1\npower = 0.9", ["power is given twice", "keep one"]),
    "tolerance negative": ("tolerance = -1e-3", ["tolerance = -0.001", "0 (none) or a total variation below 1"]),
    "tolerance 1": ("tolerance = 1.0", ["tolerance = 1.0", "0 (none) or a total variation below 1"]),
    "tolerance NaN": ("tolerance = nan", ["tolerance = nan", "a total variation below 1"]),
    "a family that there is not": (
        "[weights]\nlaws = 1.0",
        ["weights has 'laws'", "its keys are law, conditional, dependence, rare, fit"],
    ),
    "a weight above 1": ("[weights]\nlaw = 1.5", ["weights.law = 1.5", "a share from 0 to 1"]),
    "a weight below 0": ("[weights]\nlaw = 1.0\nfit = -0.5", ["weights.fit = -0.5", "a share from 0 to 1"]),
    "a weight NaN": ("[weights]\nlaw = nan", ["weights.law = nan", "a share from 0 to 1"]),
    "weights that sum to less": ("[weights]\nlaw = 0.5\nfit = 0.25", ["sum to 0.75", "divide each by 0.75"]),
    "weights that sum to more": ("[weights]\nlaw = 0.8\nfit = 0.4", ["sum to 1.2", "divide each by 1.2"]),
    "weights of 0": ("[weights]\nlaw = 0", ["sum to 0", "the default is"]),
    "weights as a list": ("weights = [1.0]", ["weights = [1.0]", "Expected `object`, got `array`"]),
    "a weight as text": ('[weights]\nlaw = "1"', ["Expected `float`, got `str`"]),
    "depth 3": ("depths = [3]", ["depths = [3]", "4 to 5"]),
    "depth 6": ("depths = [4, 6]", ["depths = [4, 6]", "4 to 5"]),
    "no depth": ("depths = []", ["depths = []", "not empty"]),
    "a depth twice": ("depths = [4, 4]", ["depths = [4, 4]", "distinct"]),
    "batch 0": ("batch_sizes = [0]", ["batch_sizes = [0]", "1 to 262144"]),
    "batch 262145": ("batch_sizes = [262145]", ["batch_sizes = [262145]", "1 to 262144"]),
    "a batch size twice": ("batch_sizes = [1, 2, 1]", ["batch_sizes = [1, 2, 1]", "distinct"]),
    "no target": ("targets = []", ["targets = []", "at least one"]),
    "a target twice": ('targets = ["disjoint", "disjoint"]', ["targets = ['disjoint', 'disjoint']", "distinct"]),
    "an empty name": ('name = ""', ["name = ''", "1 to 64 letters"]),
    "weights that do not sum to 2^24": (own(row(weights="[8388608, 8388607]")), ["16777215", "16777216 (2^24)"]),
    "a negative weight": (own(row(weights="[16777217, -1]")), ["weights must lie in 0 to 16777216"]),
    "negative weights of the right sum": (own(row(weights="[16777216, 0]", ids="[3, 3]")), ["[3, 3]", "distinct"]),
    "one weight below 0": (
        own(row(ids="[1, 2, 3]", weights="[8388609, 8388608, -1]")),
        ["row 0", "none negative"],
    ),
    "a weight too few": (own(row(weights="[16777216]")), ["2 ids and 1 weights", "one for each"]),
    "a logit too many": (own(row(draft_logits="[1.0, 2.0, 3.0]")), ["2 draft_ids and 3 draft_logits"]),
    "an id outside the vocabulary": (own(row(ids="[3, 64]")), ["ids [64]", "below 64"]),
    "a negative id": (own(row(draft_ids="[-1, 9]")), ["draft_ids [-1]", "below 64"]),
    "ids not distinct": (own(row(draft_ids="[9, 9]")), ["draft_ids [9, 9]", "distinct"]),
    "a logit not exact in BF16": (own(row(draft_logits="[0.1, 0.5]")), ["0.1", "not exact in BF16"]),
    "a logit FP32 would round": (own(row(draft_logits="[1.00000001, 0.5]")), ["1.00000001", "not exact in BF16"]),
    "a logit beyond FP32": (own(row(draft_logits="[1e39, 0.5]")), ["1e+39"]),
    "a logit that is not finite": (own(row(draft_logits="[nan, 0.5]")), ["draft_logits must be finite"]),
    "two rows and no contexts": (own(f"{ROW}, {OTHER}"), ["2 rows", "give 1, 6 (one a position), or contexts"]),
    "no rows": (own(""), ["0 rows"]),
    "contexts of another vocabulary": (own(contexts="[0, 0, 0]"), ["64 tokens"]),
    "a context without a row": (own(contexts="[" + "0, " * 63 + "1]"), ["context 1; there are 1 rows"]),
    "a context beyond any integer": (own(contexts="[" + "0, " * 63 + "99999999999999999999]"), ["mine"]),
    "an unknown pattern": (own(patterns='["frist"]'), ["'frist'", "none, first, middle, last, every"]),
    "no pattern": (own(patterns="[]"), ["none, first, middle, last, every"]),
    "a pattern twice": (own(patterns='["first", "first"]'), ["first"]),
    "a target without a vocabulary": (f'{SMALL}[[target]]\nname = "mine"', ["vocab", "target[0]"]),
    "vocabulary 0": (own(vocab="0"), ["vocab = 0"]),
    "a vocabulary beyond 2^24": (own(vocab="16777217"), ["vocab = 16777217", "16777216"]),
    "a target defined and not listed": (own().replace('["mine"]', '["disjoint"]'), ["'mine'", "not listed"]),
    "the name of one of ours": (own(name='"disjoint"'), ["'disjoint'", "taken"]),
    "a target defined twice": (own() + "\n[[target]]" + own().partition("[[target]]")[2], ["'mine'", "taken"]),
    "a key of a target at the top": ("vocab = 5", ["unknown key 'vocab'; keys are name, targets"]),
    "a key of the top in a target": (own(depths="[4]"), ["unknown key 'depths' of target[0]; keys are name, vocab"]),
    "requests of 400 digits": (f"requests = {'7' * 400}", [f"requests = {'7' * 20}... (400 digits)"]),
    "requests of 400 digits, negative": (f"requests = -{'7' * 400}", [f"requests = -{'7' * 20}... (400 digits)"]),
    "requests of 400 hexadecimal digits": (f"requests = 0x{'f' * 400}", ["requests = 4446", "... (482 digits)"]),
    "paired of 5,000 digits": (
        f"alpha = 1e-5\npaired = {'7' * 5000}",
        [f"paired = {'7' * 20}... (5,000 digits)", "write a smaller number"],
    ),
    "pool of 5,000 hexadecimal digits": (
        f"pool = 0x{'f' * 5000}",
        [f"pool = {16**5000 // 10**6001}... (6,021 digits)"],
    ),
    "digits set apart by underscores": (f"pool = {'7_' * 4999}7", [f"pool = {'7' * 20}... (5,000 digits)"]),
    "alpha of 400 digits": (f"alpha = {'7' * 400}", [f"alpha = {'7' * 20}... (400 digits)"]),
    "alpha beyond any double": ("alpha = 1e999", ["alpha = inf"]),
    "a batch size of 400 digits": (
        f"batch_sizes = [1, {'7' * 400}]",
        [f"batch_sizes = [1, {'7' * 20}... (400 digits)]"],
    ),
    "a vocabulary of 400 digits": (own(vocab="7" * 400), [f"vocab = {'7' * 20}... (400 digits)"]),
    "an id of 400 digits": (own(row(ids=f"[3, {'7' * 400}]")), [f"ids [{'7' * 20}... (400 digits)]", "below 64"]),
    "a weight of 400 digits": (
        own(row(weights=f"[8388608, {'7' * 400}]")),
        ["weights must lie in 0 to 16777216", f"[{'7' * 20}... (400 digits)]"],
    ),
    "a weight of 5,000 digits": (
        own(row(weights=f"[8388608, {'7' * 5000}]")),
        [f"rows = {'7' * 20}... (5,000 digits)"],
    ),
    "a logit of 400 digits": (
        own(row(draft_logits=f"[{'7' * 400}, 0.5]")),
        [f"draft_logits[0] = {'7' * 20}... (400 digits)"],
    ),
    "a context of 400 digits": (own(contexts="[" + "0, " * 63 + "7" * 400 + "]"), [f"{'7' * 20}... (400 digits)"]),
    "a name of 5,000 letters": (f"name = '{'x' * 5000}'", ["name = 'xxx", "...", "1 to 64 letters"]),
    "a key of 5,000 letters": (f"{'x' * 5000} = 1", ["unknown key 'xxx", "..."]),
    "a pattern of 5,000 letters": (own(patterns=f"['{'x' * 5000}']"), ["xxx...", "none, first, middle, last, every"]),
    "5,000 targets": (f"targets = {['disjoint'] * 5000}", ["targets = ['disjoint', ", "...", "distinct"]),
    "lists 5,000 deep": (f"alpha = 1e-5\npool = {'[' * 5000}{']' * 5000}", ["pool is nested deeper than 20"]),
    "tables 5,000 deep": (f"alpha = 1e-5\npool = {'{a = ' * 5000}1{'}' * 5000}", ["pool is nested deeper than 20"]),
    "lists 100 deep": (f"pool = {'[' * 100}{']' * 100}", ["pool = [[[[[...]]]]]", "Expected `int`, got `array`"]),
    "a key 5,000 deep": (f"pool{'.a' * 5000} = 1", ["pool = {'a': {", "Expected `int`, got `object`"]),
    "not TOML": ("requests == 5", ["not TOML"]),
    "a key twice": ("requests = 5\nrequests = 6", ["not TOML"]),
    "not UTF-8": ("name = '\udcff'", ["not TOML"]),
}
VOCABULARIES = {"31, one too few": ("31", ["31", "32 to 262144"]), "300000": ("300000", ["300000", "32 to 262144"])}


@pytest.mark.parametrize(("text", "named"), BAD.values(), ids=BAD)
def test_refused(text: str, named: list[str], tmp_path: Path) -> None:
    """One line, exit code 2, with the file, the value and the way out."""
    with pytest.raises(CampaignError) as refused:
        load(text, tmp_path)
    message = str(refused.value)
    assert [part for part in named if part not in message] == []
    assert message.startswith(str(tmp_path / "campaign.toml"))
    assert "\n" not in message
    assert len(message) - len(str(tmp_path)) < LONGEST_MESSAGE
    assert refused.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(("vocab", "named"), VOCABULARIES.values(), ids=VOCABULARIES)
def test_a_vocabulary_outside_what_the_sampler_declares_is_refused(
    vocab: str, named: list[str], tmp_path: Path
) -> None:
    """The campaign may name it, our sampler may not run it."""
    campaign = load(own(vocab=vocab), tmp_path)
    with pytest.raises(CampaignError) as refused:
        campaigns.check_sampler(campaign, campaigns.our_limits())
    assert [part for part in ["mine", *named] if part not in str(refused.value)] == []
    assert refused.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("vocab", ["32", "262144"])
def test_the_declared_vocabularies_are_accepted(vocab: str, tmp_path: Path) -> None:
    """Both ends."""
    campaigns.check_sampler(load(own(vocab=vocab), tmp_path), campaigns.our_limits())


@pytest.mark.parametrize("missing", ["nowhere.toml", "."])
def test_a_file_that_cannot_be_read_is_refused(missing: str, tmp_path: Path) -> None:
    """A missing file, and a folder."""
    with pytest.raises(CampaignError, match="give the path of a campaign file") as refused:
        campaigns.load(tmp_path / missing)
    assert str(tmp_path / missing) in str(refused.value)
    assert refused.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(("requests", "shown"), [(0, "0"), (-5, "-5"), (10**400, "10{19}... \\(401 digits\\)")])
def test_the_option_is_checked_as_the_key_is(requests: int, shown: str) -> None:
    """--requests takes the key's place."""
    with pytest.raises(CampaignError, match=f"requests = {shown}; it must be from 1 to"):
        campaigns.load(None, {"requests": requests})


VALUES: dict[str, tuple[Any, str]] = {
    "zero": (0, "0"),
    "60 digits": (10**59, f"1{'0' * 59}"),
    "61 digits": (10**60, f"1{'0' * 19}... (61 digits)"),
    "400 nines": (10**400 - 1, f"{'9' * 20}... (400 digits)"),
    "more digits than str takes": (-(10**5000), f"-1{'0' * 19}... (5,001 digits)"),
    "in a list": ([1, 10**400], f"[1, 1{'0' * 19}... (401 digits)]"),
    "a boolean": (True, "True"),
    "a double": (1e-5, "1e-05"),
    "a short text": ("mine", "'mine'"),
    "a short list": (["mine", 3], "['mine', 3]"),
    "a list in lists": ([[[[[[1]]]]]], "[[[[[...]]]]]"),
}


@pytest.mark.parametrize(("value", "shown"), VALUES.values(), ids=VALUES)
def test_a_value_is_repeated_short(value: Any, shown: str) -> None:
    """Whole where it is short; a long number by its first digits and their number."""
    assert echo(value) == shown


@pytest.mark.parametrize("value", ["x" * 500, ["x"] * 500, [10**59] * 9, {"x" * 50: "y" * 50}], ids=type)
def test_a_long_value_is_cut(value: Any) -> None:
    assert len(echo(value)) <= 60
    assert "..." in echo(value)
