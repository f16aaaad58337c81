"""The catalogue's part for vLLM: every adapter at every pinned version that has what it needs."""

from pp3.harness.samplers.registry import HOME, Entry

NEEDS = ("torch", "triton")
ALL = ("0.28.0", "0.29.0", "0.30.0", "0.33.0")
SALTED = ("0.29.0", "0.30.0", "0.33.0")
LAST = ("0.33.0",)
SPLIT = "topk-topp-split"
FLAT = "top-k leaves a row of equal logits whole, which fails"
BONUS = "its bonus token is the adapter's own exact draw, so bonus cells test the adapter"

ROWS = (  # name, object, versions, about
    ("v2", "vllm_v2:standard", ALL, "verifier of model runner V2"),
    ("v2-one-hot", "vllm_v2:one_hot", ALL, "the same without draft logits, each draft a point mass"),
    ("v2-block", "vllm_v2:block", ALL, "the same by block verification"),
    (
        "v2-pipeline",
        "vllm_gumbel:Pipeline",
        ALL,
        "drafts by its own Gumbel sampler at the verifier's keys, then its verifier",
    ),
    (
        "v2-unsalted",
        "vllm_gumbel:unsalted",
        SALTED,
        "negative control: the pipeline without the salt, so that drafts share the noise of what replaces them",
    ),
    ("v2-raw-probs", "vllm_v2:raw_probs", LAST, "negative control: probabilities given as draft logits"),
    ("v2-synthetic", "vllm_v2:synthetic", LAST, "negative control: drafts kept at a fixed rate (lossy by design)"),
    ("v2-fly", "vllm_v2:fly", LAST, "negative control: rejections taken back, FLy (lossy by design)"),
    ("gumbel", "vllm_gumbel:Gumbel", ALL, "plain sampler of model runner V2, temperature only"),
    (
        "classic",
        "vllm_classic:standard",
        ALL,
        f"verifier of model runner V1, held to the full target where a draft is -1; {BONUS}",
    ),
    ("classic-residual", "vllm_classic:residual", ALL, f"the same, held to the residual where a draft is -1; {BONUS}"),
    ("classic-one-hot", "vllm_classic:one_hot", ALL, f"the same without draft probabilities; {BONUS}"),
    ("topk-topp", "vllm_filters:by_sort", ALL, "top-k and top-p by a sort in torch, then its draw"),
    (
        "topk-topp-triton",
        "vllm_filters:by_triton",
        ALL,
        f"top-k and top-p by its Triton kernel, then its draw; {FLAT}",
    ),
    (
        SPLIT,
        "vllm_filters:by_split",
        ("0.30.0", *LAST),
        f"the same 64 rows a launch, where a GPU splits a row's top-p: slow; {FLAT}",
    ),
)

VLLM = tuple(
    Entry(
        name=f"vllm-{name}-{version}",
        target=f"{HOME}.{target}",
        about=f"vLLM {version}: {about}",
        needs=NEEDS,
        image=version,
        gpu=name == SPLIT,
        requests=20_000 if name == SPLIT else 0,
    )
    for name, target, versions, about in ROWS
    for version in versions
)
