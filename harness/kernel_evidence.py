"""What is shown of the kernels beside a campaign: known answers, bits against the reference, what they ran on.

In parts, each of which a process of its own can make.
"""

from typing import Any

import msgspec

from pp3.harness import backends, bits, conform
from pp3.harness.backends import Backend
from pp3.harness.bits import GPU_BITS_REQUESTS, INTERPRETED_REQUESTS
from pp3.harness.campaign import Campaign, of_document
from pp3.harness.conform import KNOWN_ANSWERS
from pp3.harness.paths import find_vectors
from pp3.harness.requests import sampled_batch
from pp3.harness.seeds import Seed

PARTS = ("requests", "verify", "proposal", "conform", "identity")  # the longest first


def kernel_evidence(part: str, device: Backend, document: dict[str, Any], seed: bytes) -> list[dict[str, Any]]:
    """One part of what is shown of the kernels on one backend, in receipt form. On a CPU, in a process of its own."""
    arithmetic = backends.start(device)
    if part == "identity":
        return [backends.identity(device)]
    if part == "conform":
        return known_answers(device)
    interpreted = device is Backend.INTERPRETER
    ways = bits.INTERPRETED_WAYS if interpreted else bits.WAYS
    if part == "proposal":
        return [result.plain() for result in bits.proposal_bits(arithmetic, ways, wide=not interpreted)]
    if part == "verify":
        return [result.plain() for result in bits.verify_bits(arithmetic, ways, wide=not interpreted)]
    from pp3.harness.samplers.kernels import KernelSampler

    campaign = of_document(document, "campaign")
    gpu = device is Backend.CUDA
    count = GPU_BITS_REQUESTS if gpu else INTERPRETED_REQUESTS
    batches = []
    for target in campaign.targets:
        for depth in campaign.spec.depths:
            batch = sampled_batch(target, depth, 4, Seed(seed), 0, count)
            batches.append((f"requests/{target.name}/depth-{depth}", batch))
    sampler = KernelSampler("cuda" if gpu else "cpu")
    found = bits.sampler_bits(sampler, batches) if gpu else bits.sampler_bits(sampler, batches, ("batch", "alone"), 1)
    return [result.plain() for result in found]


def known_answers(device: Backend) -> list[dict[str, Any]]:
    """The files of known answers on one backend, in receipt form; none where they are not installed."""
    arithmetic, folder = backends.start(device), find_vectors()
    answers = [conform.run(folder / name, arithmetic) for name in KNOWN_ANSWERS] if folder else []
    return [
        {"file": answer.file, "passed": answer.passed, "sha256": answer.sha256, "total": answer.total}
        for answer in answers
    ]


def kernels_of(found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What is shown of the kernels, in receipt form, of all its parts."""
    return {
        "bits": [*found["proposal"], *found["verify"], *found["requests"]],
        "conform": found["conform"],
        "identity": found["identity"][0],
    }


def campaign_document(campaign: Campaign) -> dict[str, Any]:
    """A campaign as a document, to hand to another process."""
    return dict(msgspec.to_builtins(campaign.spec))
