"""`pp3 qualify`: its options, and which of the ways to run a campaign they ask for; each is imported when it runs."""

from pathlib import Path
from typing import Any

import click

from pp3.harness.count import COUNT
from pp3.harness.engine import options as engines
from pp3.harness.errors import CampaignError

PATH = click.Path(path_type=Path)
OUT = "New or empty folder for receipt and page. Default: the checkout's runs folders."
OURS = "pp3-top32"
OVERLAY = "overlay"


@click.command()
@click.option("--campaign", type=PATH, help="Campaign file (TOML). Default: the customer's five targets.")
@click.option("--sampler", help=f"Name, module:object or file.py:object. Default: the campaign's, or {OURS}.")
@click.option("--image", type=PATH, help="vLLM's files: a wheel or a folder of make image. Default: the cache.")
@click.option("--overlay", type=PATH, help="Of --sampler overlay: the folder that pp3 prepare wrote.")
@click.option("--target", "targets", multiple=True, help="Of another sampler: only this target; may be repeated.")
@click.option("--detect", type=float, help="Total variation of a first token's law that must be seen.")
@click.option("--tolerance", type=float, help="Total variation that is tolerated. Default: 0.")
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--requests", type=COUNT, help="Requests per target, in place of the campaign's.")
@click.option("--counter", type=int, help="Run number that selects the seed. Default: one past the highest known.")
@click.option(
    "--jobs",
    type=int,
    default=1,
    show_default=True,
    help="Processes: of another sampler for its targets, of an engine.",
)
@click.option("--out", type=PATH, help=OUT)
@click.option("--require-gpu", is_flag=True, help="Fail (69) when no GPU is found.")
@click.option("--dir", "folder", type=PATH, help="Run in pieces, kept in this folder as they end.")
@click.option("--resume", is_flag=True, help="Go on with the campaign in --dir, whatever ended it.")
@click.option("--shard", metavar="I/N", help="Only this part of the pieces; `pp3 merge` joins them.")
@click.option("--gpus", metavar="all|N", help="Run in pieces, one process a GPU.")
@click.option("--dask", metavar="ADDRESS", help="Run in pieces on the workers of this Dask scheduler.")
@click.option("--stall-timeout", type=int, metavar="SECONDS", help="Run in pieces; give up when none ends for so long.")
@click.option("--path", type=click.Choice(["wire"]), help="Send every proposal over the wire, with faults on the way.")
@click.option("--proxy", type=click.Choice(["thread", "process"]), help="Of --path wire. Default: thread.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@engines.of_engines
def qualify(
    campaign: Path | None,
    sampler: str | None,
    image: Path | None,
    overlay: Path | None,
    targets: tuple[str, ...],
    detect: float | None,
    tolerance: float | None,
    device: str,
    requests: int | None,
    counter: int | None,
    jobs: int,
    out: Path | None,
    require_gpu: bool,
    folder: Path | None,
    resume: bool,
    shard: str | None,
    gpus: str | None,
    dask: str | None,
    stall_timeout: int | None,
    path: str | None,
    proxy: str | None,
    as_json: bool,
    **of_engine: Any,
) -> int:
    """Run a campaign: the real sampler on targets whose law is known; writes a receipt and a page."""
    if of_engine["engine"] is not None:
        samplers = {"--campaign": campaign, "--sampler": sampler, "--image": image, "--target": targets}
        sizes = {"--detect": detect, "--tolerance": tolerance, "--requests": requests}
        pieces = {"--shard": shard, "--gpus": gpus, "--dask": dask}
        shared = {"device": "cuda" if require_gpu else device, "counter": counter, "out": out, "folder": folder}
        shared |= {"resume": resume, "jobs": jobs, "as_json": as_json}
        return engines.run(of_engine, samplers | sizes | pieces, shared)
    engines.refuse(of_engine)
    from pp3.harness.operations.where import Where
    from pp3.harness.trial import campaign_file

    where = Where(folder=folder, resume=resume, shard=shard, gpus=gpus, dask=dask, stall_timeout=stall_timeout)
    where.check()
    if proxy and not path and sampler != OVERLAY:
        raise CampaignError("--proxy is of --path wire; give both, or leave it out")
    if path and sampler != OVERLAY:
        from pp3.harness.transport import command as over_wire

        mine = sampler in (None, "", OURS)
        jobs_given = jobs != 1
        over_wire.refuse_beside({"--sampler": not mine, "--image": image, "--target": targets, "--jobs": jobs_given})
        over_wire.refuse_beside({"--dir, --resume, --shard, --gpus or --dask": where.asked})
        return over_wire.run_command(
            proxy or "thread", campaign, device, requests, counter, out, require_gpu, as_json, detect, tolerance
        )
    if sampler is None and campaign is not None:
        sampler = campaign_file.sampler_of(campaign)
    if overlay is not None and sampler != OVERLAY:
        raise CampaignError(f"--overlay {overlay}: it is for --sampler {OVERLAY}")
    if sampler in (None, "", OURS):
        for option, value in (("--image", image), ("--target", targets), ("--jobs", jobs != 1)):
            if value:
                way = "its key `targets` chooses" if option == "--target" else "or give another --sampler"
                raise CampaignError(f"{option} is for other samplers; {OURS} has its campaign file: {way}")
        if where.asked:
            from pp3.harness.operations.command import run_any

            values = {"requests": requests, "detect": detect, "tolerance": tolerance}
            said = {key: value for key, value in values.items() if value is not None}
            return run_any(where, campaign, device, counter, out, require_gpu, as_json, said)
        from pp3.harness.qualify import run_command

        return run_command(campaign, device, requests, counter, out, require_gpu, as_json, detect, tolerance)
    from pp3.harness.qualify import refuse_contradiction
    from pp3.harness.trial.command import run_command as run_trial

    refuse_contradiction(device, require_gpu)
    spec, given = campaign_file.chosen(campaign, str(sampler), targets, requests, detect, tolerance)
    if sampler == OVERLAY:
        from pp3.harness.overlay.command import run_command as run_overlay

        if where.asked or jobs != 1:
            raise CampaignError(f"--sampler {OVERLAY} runs whole, in this process: leave --dir, --shard and --jobs out")
        on = "cuda" if require_gpu else device
        return run_overlay(image, overlay, spec, given, on, counter, out, as_json, proxy)
    if where.asked:
        from pp3.harness.operations.trial import run_command as run_pieces

        return run_pieces(where, spec, given, image, "cuda" if require_gpu else device, counter, out, as_json, jobs)
    return run_trial(spec, given, image, "cuda" if require_gpu else device, counter, out, as_json, jobs)
