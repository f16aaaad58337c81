"""transformers 5.17.0: what pads a shorter prompt counts as seen by the repetition penalty.

So the law of a request depends on its company. Without PP3: a model of three tokens whose next-token law is
(0.5, 0.3, 0.2) whatever came before, id 2 being the end and the padding. Usage: transformers_padding.py SEED
"""

import sys
from typing import Any

import torch

ROWS, PENALTY, LAW, END = 20_000, 1.5, (0.5, 0.3, 0.2), 2


def share_of_the_end(package: Any, model: Any, width: int) -> float:
    """How often the end follows a prompt of token 0 that is padded to a width."""
    prompt = torch.tensor([[END] * (width - 1) + [0]] * ROWS)
    mask = torch.tensor([[0] * (width - 1) + [1]] * ROWS)
    config = package.GenerationConfig(
        do_sample=True,
        eos_token_id=END,
        max_new_tokens=1,
        pad_token_id=END,
        repetition_penalty=PENALTY,
        top_k=0,
        top_p=1.0,
    )
    out = model.generate(prompt, attention_mask=mask, generation_config=config)
    return float((out[:, width] == END).double().mean())


def model_of(package: Any) -> Any:
    """A Llama model whose logits are those of LAW."""
    config = package.LlamaConfig(
        vocab_size=3,
        hidden_size=4,
        intermediate_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        bos_token_id=0,
        eos_token_id=END,
        pad_token_id=END,
        tie_word_embeddings=False,
    )
    model = package.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        layer = model.model.layers[0]
        for ones in (model.model.embed_tokens, model.model.norm, layer.input_layernorm, layer.post_attention_layernorm):
            ones.weight.fill_(1)
        model.lm_head.weight.copy_(torch.tensor(LAW).log()[:, None].expand(3, 4) / 4)
    return model


def main() -> None:
    """Print the law, and what came alone and padded."""
    import transformers as package

    torch.manual_seed(int(sys.argv[1]))
    logits = torch.tensor(LAW).log()
    logits[0] *= PENALTY  # the prompt is token 0 alone
    print(f"transformers {package.__version__}, torch {torch.__version__}")
    print(f"law: the end follows in {float(logits.softmax(-1)[END]):.4f}")
    model = model_of(package)
    for width in (1, 4):
        print(f"prompt of 1 token padded to {width}: {share_of_the_end(package, model, width):.4f} of {ROWS:,}")


if __name__ == "__main__":
    main()
