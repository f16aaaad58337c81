"""Faults in the text of kernels/verifier.py."""

from pp3.harness.faults.triton_fault import of_file

_verifier = of_file("verifier")
COIN = "w0.to(tl.int64) * mass < (_quanta(prob) << 8)"
BLOCK = "philox.words(key, round_number, base + emit_at)"
W64 = "w64 = w1.to(tl.uint64) | (w2.to(tl.uint64) << 32)"
VERIFIER = (
    _verifier(
        "accept-le",
        "a coin equal to the ratio keeps its draft: one of 2^32 coins, and probability 0 is kept",
        COIN,
        "w0.to(tl.int64) * mass <= (_quanta(prob) << 8)",
        "exact:edges",
        seen="exact:edges",
    ),
    _verifier(
        "accept-24-bits",
        "the low 8 bits of the coin are dropped",
        COIN,
        "(w0 & 0xFFFFFF00).to(tl.int64) * mass < (_quanta(prob) << 8)",
        "exact:edges",
        seen="exact:edges",
    ),
    _verifier(
        "accept-unscaled",
        "P is not brought to the scale of the coin: the ratio is 256 times too small",
        COIN,
        "w0.to(tl.int64) * mass < _quanta(prob)",
        "token",
    ),
    _verifier(
        "accept-inverted", "the ratio is Q / P", COIN, "w0.to(tl.int64) * (_quanta(prob) >> 24) < (mass << 32)", "token"
    ),
    _verifier("accept-always", "every draft is kept", COIN, "mass >= 0", "token", "huggingface/transformers PR 28508"),
    _verifier(
        "accept-by-target",
        "the coin is compared with P instead of with P / Q",
        COIN,
        "w0.to(tl.int64) * TICKETS < (_quanta(prob) << 8)",
        "token",
        "vLLM issue 40149",
    ),
    _verifier(
        "residual-not-subtracted",
        "a rejected draft is replaced from the whole target",
        "rejected = rejected & (tl.sum(share, 1) != tl.sum(left, 1))",
        "rejected = rejected & (tl.sum(share, 1) < 0)",
        "residual",
    ),
    _verifier(
        "residual-unclamped",
        "P - Q is summed with its negative part, so that the residual of two laws is empty",
        "return tl.minimum(_quanta(prob), tickets << 24)",
        "return tickets << 24",
        "residual",
    ),
    _verifier(
        "residual-of-the-next-draft",
        "the residual subtracts the proposal of the next position",
        "last = request * depth + tl.minimum(emit_at, depth - 1)",
        "last = request * depth + tl.minimum(emit_at + 1, depth - 1)",
        "residual",
        "lattice (Rust inference engine) issue 243",
    ),
    _verifier(
        "residual-exclusive-sum",
        "running sums leave out the token's own share: the next token is emitted",
        "running = before[:, None] + tl.cumsum(weight, 1)",
        "running = before[:, None] + tl.cumsum(weight, 1) - weight",
        "residual",
    ),
    _verifier(
        "residual-edge",
        "a draw equal to a running sum gives the token before it",
        "tl.sum((running <= wanted)",
        "tl.sum((running < wanted)",
        "exact:edges",
        seen="exact:edges",
    ),
    _verifier(
        "residual-by-the-coin",
        "the word that rejected a draft draws its replacement too",
        W64,
        "w64 = w1.to(tl.uint64) | (_w0.to(tl.uint64) << 32)",
        "residual",
        "vllm-project/vllm-ascend PR 16370",
    ),
    _verifier(
        "bonus-of-the-last-draft",
        "the bonus is drawn from the row that judged the last draft",
        "row_ptr += emit_at * row_stride",
        "row_ptr += tl.minimum(emit_at, depth - 1) * row_stride",
        "bonus",
        "vLLM PR 9730",
    ),
    _verifier(
        "bonus-by-spare-words",
        "the bonus is drawn by words of the last draft's block that nothing else uses: no law changes",
        BLOCK,
        "philox.words(key, round_number, base + tl.minimum(emit_at, depth - 1))",
        "bits",
    ),
    _verifier(
        "bonus-by-the-coin",
        "the bonus is drawn by the word that kept the last draft",
        f"_w0, w1, w2, _w3 = {BLOCK}\n        {W64}",
        "_w0, w1, w2, _w3 = philox.words(key, round_number, base + tl.minimum(emit_at, depth - 1))\n        "
        "w64 = w1.to(tl.uint64) | (tl.where(emit_at == depth, _w0, w2).to(tl.uint64) << 32)",
        "bonus",
        "vllm-project/vllm-ascend PR 16370",
    ),
    _verifier(
        "void-from-the-residual",
        "an invalidated draft is replaced from the residual",
        "alive = alive & (draft != -1)",
        "rejected = rejected | (alive & (draft == -1))\n        alive = alive & (draft != -1)",
        "full-target",
    ),
    _verifier(
        "length-less-one",
        "the number of kept drafts is returned for that of tokens",
        "tl.where(failed, 0, emit_at + 1)",
        "tl.where(failed, 0, emit_at)",
        "breach",
    ),
    _verifier(
        "length-without-bonus",
        "the bonus is not counted",
        "tl.where(failed, 0, emit_at + 1)",
        "tl.where(failed, 0, tl.minimum(emit_at + 1, depth))",
        "length",
    ),
    _verifier(
        "coin-of-the-first-draft",
        "the counter lacks the position: one coin judges every draft of a round",
        "philox.words(key, round_number, base + j)",
        "philox.words(key, round_number, base + 0 * j)",
        "length",
        "pytorch PR 126066",
    ),
    _verifier(
        "greedy-last-of-ties",
        "of equal probabilities the last is the argmax; no one-hot row has any",
        "tl.store(best_ptr + program, tl.max(key, 1),",
        "tl.store(best_ptr + program, tl.min(tl.where(key >> ID_BITS == (tl.max(key, 1) >> ID_BITS)[:, None], key, "
        "1 << 60), 1),",
        "exact:pairs",
        "pytorch issue 127196",
    ),
    _verifier(
        "greedy-of-the-neighbour",
        "the argmax of a draft is looked up where rows have one position less",
        "keep = _argmax(best_ptr, request * (depth + 1) + j,",
        "keep = _argmax(best_ptr, request * depth + j,",
        "forbidden",
        "omlx PR 1824",
    ),
    _verifier(
        "target-of-the-neighbour",
        "the target rows are those of the next request",
        "row_ptr = probs_ptr + request * request_stride",
        "row_ptr = probs_ptr + tl.minimum(request + 1, batch - 1) * request_stride",
        "forbidden",
        "vLLM PR 41044",
    ),
    _verifier(
        "mask-probability-1",
        "lanes past the vocabulary have probability 1, so no row has mass 1",
        "prob = tl.load(probs_ptr + at, mask=inside, other=0.0)",
        "prob = tl.load(probs_ptr + at, mask=inside, other=1.0)",
        "breach",
        "vLLM PR 21876",
    ),
)
