"""Which vLLM files are known: by version, the SHA-256 of the x86_64 wheel and of each file that is read from it.

A file's name is its path inside the wheel. Nothing of vLLM itself is kept here.
"""

from dataclasses import dataclass
from enum import StrEnum

from pp3.harness.errors import CampaignError

DEFAULT = "0.33.0"

PRF_BASE = "vllm/v1/watermarking/prfs/base.py"
PRF_PHILOX = "vllm/v1/watermarking/prfs/philox.py"
GUMBEL = "vllm/v1/worker/gpu/sample/gumbel.py"
WATERMARK = "vllm/v1/worker/gpu/sample/watermark.py"
FLY = "vllm/v1/spec_decode/fly.py"
VERIFIER = "vllm/v1/worker/gpu/spec_decode/rejection_sampler_utils.py"
CLASSIC = "vllm/v1/sample/rejection_sampler.py"
WARMUP = "vllm/model_executor/warmup/jit_warmup.py"
WARMUP_TRITON = "vllm/model_executor/warmup/jit_warmup_triton_helper.py"
MATH = "vllm/utils/math_utils.py"
FILTER_TRITON = "vllm/v1/sample/ops/topk_topp_triton.py"
FILTER = "vllm/v1/sample/ops/topk_topp_sampler.py"


class Part(StrEnum):
    """What can be loaded from an image."""

    V2 = "v2"  # the verifier and the plain sampler of model runner V2
    CLASSIC = "classic"  # the verifier of model runner V1
    TOPK_TOPP = "topk-topp"  # the filters


PARTS = {
    Part.V2: (PRF_BASE, PRF_PHILOX, GUMBEL, WATERMARK, FLY, VERIFIER),
    Part.CLASSIC: (FLY, WARMUP, WARMUP_TRITON, CLASSIC),
    Part.TOPK_TOPP: (WARMUP, WARMUP_TRITON, MATH, FILTER_TRITON, FILTER),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One known version."""

    wheel: str  # SHA-256 of the x86_64 wheel
    files: dict[str, str]  # name to SHA-256

    def members(self, part: Part) -> tuple[str, ...]:
        """The files of a part that this version has and needs."""
        return tuple(name for name in PARTS[part] if name in self.files)


PINS = {
    "0.28.0": Pin(
        wheel="addb0ffdaafd8155d75e9b3f5ddb3da28fdee9e8a7097ede91f7db2e9e1a3889",
        files={
            GUMBEL: "1f9ca94ccaa27ac6c7b15bfcd8342a9118e2e624f2b5fa7fd19e5eee8614a823",
            VERIFIER: "659e82c2ce1249a6e614f7adf62e3824329a7b79e7a4caa55cfadf254068a98a",
            CLASSIC: "4bb87d7984d967be9c7e5b6a6b489c02571ef2f2913211cb3f1eea74b2e1f32f",
            MATH: "23d9d5af62ee43dc55fd647822265f5e20b813bf89e5510130065932c7868fa6",
            FILTER_TRITON: "255619f699898ddaaac959d9bef4494294c76d730abb8e90549afac83a9bcbe9",
            FILTER: "bc8c1d91ad624368d2bd87a53c0361e550d28b060bcd460462d2f86565c26426",
        },
    ),
    "0.29.0": Pin(
        wheel="09d48617fc2be9c6cdcd5db480651ab0d84817b257204f2cc2e3ecbb70bbb635",
        files={
            GUMBEL: "3ec1df510bdad13e8b0a457b5b67c98affdf6e57369e56cb471246cc8f40dd34",
            VERIFIER: "20ca2e5ac34e9ef93dca388bed72a00d4ff67d569ec6ec2393b21a92d74a1fae",
            CLASSIC: "4bb87d7984d967be9c7e5b6a6b489c02571ef2f2913211cb3f1eea74b2e1f32f",
            MATH: "23d9d5af62ee43dc55fd647822265f5e20b813bf89e5510130065932c7868fa6",
            FILTER_TRITON: "255619f699898ddaaac959d9bef4494294c76d730abb8e90549afac83a9bcbe9",
            FILTER: "60d816d829797436240bada454dd66d6ab583522656e5db5d6ed3342c109eefc",
        },
    ),
    "0.30.0": Pin(
        wheel="ef52ee58c410ead0b8afb190838fa4cbcb52075596f67862a03859d984966ac4",
        files={
            PRF_BASE: "1228cc2d7245c4df4e0ef13b922655f5c22d659f6839f29c02fc43ed909c2072",
            PRF_PHILOX: "9468a4bb045008d4507ae5757da1fdcccd2730b9328ebf8ff909d89109bc8620",
            GUMBEL: "3ec1df510bdad13e8b0a457b5b67c98affdf6e57369e56cb471246cc8f40dd34",
            WATERMARK: "a3581458169dab9153eb09fd67218e0ee5585406537a9de80ad528ae62b030c0",
            VERIFIER: "214b61fa0abe88573beb779872c035b3954e5651a85bd438d99ee5905d3a62ec",
            CLASSIC: "0bb9d224887ccb1355e16199005cc23a4afc6fa75156eca419851b7247d99750",
            WARMUP: "a5fade0712c9032e8ed5f61454e39782fc69035be8a4ab8ec4fca4dfa25acfd0",
            WARMUP_TRITON: "5f521c52cd12453653826b8377ecdf508862209384cb62e30832d3c313cf4aca",
            MATH: "23d9d5af62ee43dc55fd647822265f5e20b813bf89e5510130065932c7868fa6",
            FILTER_TRITON: "0b5fc337058e22bc28a8530ccec904d6ccd89b9548b02955c657ac429b1669d2",
            FILTER: "13ea4359832bc914492330958ec4f5ac140f408b8f410cc05c6eaf7ddcd70be4",
        },
    ),
    "0.33.0": Pin(
        wheel="4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
        files={
            PRF_BASE: "1228cc2d7245c4df4e0ef13b922655f5c22d659f6839f29c02fc43ed909c2072",
            PRF_PHILOX: "9468a4bb045008d4507ae5757da1fdcccd2730b9328ebf8ff909d89109bc8620",
            GUMBEL: "1eca2fb5fb3407c12138b7ea88187cc48a9b290dea0000229b8564985f51f777",
            WATERMARK: "cfc805592773c49555ebcc9448dbb90e233c7582f325083e88f3a046053f519e",
            FLY: "0df931c5c34580043e4a066ceeba3d09da216ea77d6415679e6c94dd50349ad0",
            VERIFIER: "a4167068d1d10a36c130e2924b12cbf01f99c968f2fcf47e75a1129d3d8022c8",
            CLASSIC: "9f035dd0c5af33b29ffcc63e2192f7b2fb85f8a6b4ac89275ecb5698f7ca2ff1",
            WARMUP: "32de784ebe335149129563dbccc54cbdadf4641925659e0f01a07ff218169d19",
            WARMUP_TRITON: "59fe3d21f6d8ad625e953bbcf10b43e83f2379a82e755f9976ee797d28640d7c",
            MATH: "33a8fa109989654855abdc32c48e499349caf8339a5642f06b4d625572e472b1",
            FILTER_TRITON: "6264a524884274824b65c3a3a91d4d34418561cde566c31879cb394acd85f2ef",
            FILTER: "a8234f8dc8180c7b7d2417d4d04ca4af25bd2761dc93332f7bd2993a19c2120f",
        },
    ),
}


def public(version: str) -> str:
    """A version without its local part: 0.33.0+cu130 has the pins of 0.33.0."""
    return version.partition("+")[0]


def pin_of(version: str) -> Pin:
    """The pins of a version. CampaignError if it is not known."""
    pin = PINS.get(public(version))
    if pin is None:
        raise CampaignError(
            f"vllm {version} is not pinned, so its files cannot be checked: use one of {', '.join(PINS)}"
            f" (make image VERSION={DEFAULT} fetches one)"
        )
    return pin
