"""`pp3 replay`: run a receipt again, compare, write a receipt that is marked as a replay, say one sentence."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from pp3.harness.backends import Backend
from pp3.harness.campaign import parts_of
from pp3.harness.errors import CampaignError, Exit, PP3Error, ReceiptError
from pp3.harness.evidence import receipt, store
from pp3.harness.evidence import trial as trial_receipt
from pp3.harness.interrupts import held_until_released
from pp3.harness.progress import Bar
from pp3.harness.qualify import choose_device, shown
from pp3.harness.regression.equality import why_not
from pp3.harness.regression.integers import of_predicate
from pp3.harness.regression.opened import TRIAL, Opened, device, identity, open_sampled
from pp3.harness.regression.replay import Replayed, campaign_of, campaign_part, judge, trial_and_seed, trial_part
from pp3.harness.run import Measured, run, run_parts
from pp3.harness.samplers import registry
from pp3.harness.terminal import clean, fold, kept, sentence, width
from pp3.harness.trial import parent
from pp3.harness.trial.plan import Trial, TrialSpec, declared
from pp3.harness.verdict import all_cells, conclude
from pp3.harness.weights import DEFAULT

CHOSEN = "replay"  # of the seed: regression, no fresh evidence


def run_command(
    path: Path,
    where: str,
    part: str | None,
    sampler: str | None,
    image: Path | None,
    out: Path | None,
    write: bool,
    as_json: bool,
) -> int:
    """Everything the command does; its exit code. Arguments as `pp3 replay --help`."""
    clock = time.perf_counter()
    opened = open_sampled(path, "pp3 replay")
    for option, value in (("--sampler", sampler), ("--image", image)):
        if value and opened.kind != TRIAL:
            raise CampaignError(f"{option} is for the receipt of a trial; this one is of our own sampler")
    if out is not None and (part or not write):
        raise CampaignError(f"--out {out}: {'a slice' if part else '--no-write'} writes no receipt; drop one")
    folders = store.open_store(out) if write and not part else None
    if opened.kind == TRIAL:
        found, statement = _trial(opened, where, part, sampler, image)
    else:
        found, statement = _campaign(opened, where, part, folders is not None)
    written = receipt.write(statement, folders.receipts) if folders else None
    if as_json:
        click.echo(msgspec.json.encode(plain(found, written, time.perf_counter() - clock)).decode())
    else:
        for line in sentence(found.sentence):
            click.echo(line)
        if found.mismatch is None and found.not_promised:
            for line in fold(clean(f"more than is promised: {found.not_promised}"), width()):
                click.echo(line)
        if written:
            click.echo(kept("receipt", f"{shown(written)} (a replay: regression, no fresh evidence)"))
        click.echo(kept("took", f"{time.perf_counter() - clock:.1f} s, counter {opened.predicate['seed']['counter']}"))
    return found.exit


def plain(found: Replayed, written: Path | None, seconds: float) -> dict[str, Any]:
    """One JSON object."""
    return {
        "equal": found.mismatch is None,
        "sentence": found.sentence,
        "compared": found.compared,
        "part": found.part,
        "mismatch": found.mismatch,
        "equalCountsNotPromised": found.not_promised,
        "smallestHolmP": found.smallest,
        "receipt": str(written) if written else None,
        "seconds": round(seconds, 3),
    }


def _campaign(opened: Opened, where: str, part: str | None, write: bool) -> tuple[Replayed, dict[str, Any]]:
    """Replay a campaign of our own sampler; the kernels' own evidence is made again only for a receipt."""
    started, p = datetime.now(UTC), opened.predicate
    campaign, seed = campaign_of(opened)
    parts = campaign_part(campaign, part) if part else parts_of(campaign)
    backend = choose_device(where, require_gpu=False)
    with Bar() as bar, held_until_released() as release:

        def progress(stage: str, done: int, total: int) -> None:
            release()
            bar.update(stage, done, total)

        if write:
            measured = run(campaign, seed, backend, progress)
        else:
            measured = run_parts(campaign, seed, backend, parts, progress)
    old, new = of_predicate(p), of_predicate(_receipt_form(measured))
    if part:
        names = [f"{target}/depth-{depth}" for target, depth in parts]
        old, new = old.of(names), replace(new.of(names), breaches={} if old.breaches else new.breaches)
    found = judge(
        old,
        new,
        {cell.id: cell.atoms.tolist() for cell in all_cells(campaign)},
        "",
        where=_ours(measured, backend),
        measured_on=_measured_on(opened),
        part=", ".join(f"{target} at depth {depth}" for target, depth in parts) if part else "",
    )
    if not write:
        return found, {}
    who = measured.sampler
    judgement = conclude(
        campaign,
        measured.counts,
        measured.first,
        measured.breaches,
        measured.pairs,
        measured.kernels,
        {"name": who.name, "version": who.version, "backend": who.backend},
    )
    statement = receipt.build(campaign, seed, p["seed"]["counter"], CHOSEN, started, measured, judgement)
    return found, statement


def _receipt_form(measured: Measured) -> dict[str, Any]:
    return {
        "breaches": measured.breaches,
        "cells": [
            {"batch": batch, "counts": counts, "first": measured.first[cell, batch], "id": cell}
            for (cell, batch), counts in measured.counts.items()
        ],
        "paired": measured.pairs,
        "strays": measured.strays,
    }


def _ours(measured: Measured, backend: Backend) -> str:
    who = f"{measured.sampler.name} {measured.sampler.version}"
    return f"the Triton kernels of {who} on a GPU" if backend is Backend.CUDA else f"the NumPy reference of {who}"


def _measured_on(opened: Opened) -> str:
    sampler = opened.predicate["sampler"]
    name = device(opened.predicate)
    return f"{name}, {sampler['name']} {sampler['version']}" if sampler.get("backend") != "reference" else "a CPU"


def _trial(
    opened: Opened, where: str, part: str | None, sampler: str | None, image: Path | None
) -> tuple[Replayed, dict[str, Any]]:
    """Replay the trial of another sampler, if it is here and the same."""
    started, p = datetime.now(UTC), opened.predicate
    trial, _ = trial_and_seed(opened)
    only = trial_part(trial, part) if part else [problem.name for problem in trial.problems]
    spec = _spec(trial, opened, sampler)
    counter = p["seed"]["counter"]
    with Bar() as bar:

        def run_only(names: list[str]) -> parent.Found:
            """As many requests as the plan has, whatever its promise needs."""
            return parent.run(spec, False, image, where, counter, bar.update, most=spec.requests, only=names)

        _same_sampler(opened, run_only([]), whole=False)
        found = run_only(only)
    _same_sampler(opened, found, whole=not part)
    judged = trial_receipt.judge(found)
    statement = trial_receipt.build(found, counter, CHOSEN, started, judged)
    old, new = of_predicate(p), of_predicate(statement["predicate"])
    here = device(statement["predicate"])
    replayed = judge(
        old.of(only) if part else old,
        new.of(only) if part else new,
        {cell.id: cell.atoms.tolist() for problem in trial.problems for cell in problem.cells},
        why_not(trial, identity(p), identity(statement["predicate"])),
        where=f"{trial.who.name} {trial.who.version} on {here}",
        measured_on=device(p),
        part=", ".join(only) if part else "",
    )
    return replayed, statement


def _spec(trial: Trial, opened: Opened, sampler: str | None) -> TrialSpec:
    """The plan as its process takes it. PP3Error (69) for a sampler that nobody here knows by the receipt's name."""
    from pp3.harness.trial.command import known

    name = sampler or trial.who.name
    if sampler is None and name not in registry.everything():
        raise PP3Error(
            f"{opened.path}: its sampler {name} is none of `pp3 samplers`; say where it is with --sampler "
            "file.py:object or module:object",
            Exit.UNAVAILABLE,
        )
    known(name, "auto")
    usual = trial.weights == DEFAULT  # that of a plan that gives none: a profile may lack a family of them
    return msgspec.structs.replace(trial.spec, sampler=name, weights={} if usual else trial.spec.weights)


def _same_sampler(opened: Opened, found: parent.Found, whole: bool) -> None:
    """ReceiptError (3) unless the sampler here declares, and is made of, what the receipt says; `whole`: all of it."""
    p = opened.predicate
    here, there = declared(found.trial.who), p["plan"]["declared"]
    odd = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
    if odd:
        raise _not_it(opened, f"its {odd[0]} is {here.get(odd[0])!r} here, {there.get(odd[0])!r} there")
    mine, said = ({name: digest for name, digest in files} for files in (found.sources.files, p["sampler"]["files"]))
    names = sorted(mine.keys() | said.keys()) if whole else sorted(mine.keys() & said.keys())
    changed = [name for name in names if mine.get(name) != said.get(name)]
    if changed:
        raise _not_it(opened, f"{changed[0]} is another file here")
    if found.trial.plan_sha256 != p["planSha256"]:
        raise _not_it(opened, "it makes another plan here")


def _not_it(opened: Opened, why: str) -> ReceiptError:
    name = opened.predicate["sampler"]["name"]
    return ReceiptError(
        f"{opened.path}: {name} is not the sampler that was measured: {why}; try it anew with `pp3 qualify --sampler` "
        "and compare the receipts",
        Exit.INCONCLUSIVE,
    )
