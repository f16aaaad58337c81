"""The verdict on a campaign over the wire: that of the battery, and whether the path lost what it was to lose."""

from dataclasses import replace
from typing import Any

from pp3.harness.transport.losses import findings
from pp3.harness.transport.wire_plan import WireCampaign
from pp3.harness.verdict import Judgement, Verdict, conclude

SELF_ATTESTED = " Self-attested."
WORSE = (Verdict.INVALID, Verdict.FAIL)


def conclude_path(campaign: WireCampaign, path: dict[str, Any], *parts: Any) -> Judgement:
    """As verdict.conclude, whose further arguments are `parts`; a finding against the path is a FAIL."""
    judgement = conclude(campaign, *parts)
    against = findings(path)
    said = judgement.sentence.removesuffix(SELF_ATTESTED)
    lost = sum(path["injected"].values())
    way = f"proposals went over the wire through a proxy in a {campaign.place.value}"
    if not against:
        sentence = (
            f"{said} {way.capitalize()}; the {lost:,} of {path['rows']:,} that were to be lost were lost, no other."
        )
        return replace(judgement, sentence=f"{sentence}{SELF_ATTESTED}")
    verdict = judgement.verdict if judgement.verdict in WORSE else Verdict.FAIL
    before = f"{said} " if judgement.verdict in WORSE else f"{Verdict.FAIL.value}: "
    return replace(
        judgement,
        verdict=verdict,
        reasons=[*judgement.reasons, *against],
        sentence=f"{before}{way[0].upper() if judgement.verdict in WORSE else way[0]}{way[1:]}, and {against[0]}."
        f"{SELF_ATTESTED}",
    )
