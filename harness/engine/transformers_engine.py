"""transformers' `generate`, in process, with and without an assistant model, on a CPU or a GPU.

Requests of equal parameters are generated together, prompts padded on the left; with an assistant model, which takes
one request at a time, one after the other. Random numbers are torch's global generator, seeded for each call of
`answers` and for each request that has a seed. transformers tells nobody how many tokens a step emitted: its candidate
generators are told, and are listened to.
"""

import importlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pp3.harness.engine.contract import Answer, Ask, Facts, Finish
from pp3.harness.errors import CampaignError, Exit, PP3Error

DEPTH = 4  # tokens that the assistant drafts in a step
PLAIN = frozenset({"top_k", "top_p", "min_p", "logit_bias", "repetition_penalty", "logprobs", "stop", "abort_after"})
ASSISTED = (PLAIN - {"abort_after"}) | {"seed", "steps", "speculate"}
GENERATORS = "transformers.generation.candidate_generator"
MASK = (1 << 63) - 1


class TransformersEngine:
    """See the contract."""

    def __init__(
        self, checkpoint: Path, draft: Path | None, dtype: str = "float32", device: str = "cpu", seed: int = 0
    ) -> None:
        """Load the models. PP3Error (69) where they do not load, CampaignError for what they cannot."""
        try:
            self.torch = importlib.import_module("torch")
            self.package = importlib.import_module("transformers")
        except ModuleNotFoundError as error:
            raise PP3Error(
                f"{error.name} is not installed, and --engine transformers needs it: pip install pp3[engine]",
                Exit.UNAVAILABLE,
            ) from None
        except ImportError as error:  # it is there, with packages that it does not take
            said = str(error).strip().partition("\n")[0]
            raise PP3Error(
                f"transformers does not load: {said}; install what it names, or another version of it", Exit.UNAVAILABLE
            ) from None
        logging.getLogger("transformers").setLevel(logging.ERROR)
        importlib.import_module("transformers.utils.logging").disable_progress_bar()
        self.device, self.seed, self.dtype = device, seed, getattr(self.torch, dtype)
        self.model = self._load(checkpoint)
        self.assistant = None if draft is None else self._load(draft)
        if self.assistant is not None:
            config = self.assistant.generation_config
            config.num_assistant_tokens, config.num_assistant_tokens_schedule = DEPTH, "constant"
            config.assistant_confidence_threshold = 0.0  # or flat laws are never drafted from twice
        self.end = int(self.model.generation_config.eos_token_id)
        self.pad = int(self.model.generation_config.pad_token_id)
        self.facts = self._facts(dtype)

    def _load(self, path: Path) -> Any:
        try:
            model = self.package.AutoModelForCausalLM.from_pretrained(str(path), dtype=self.dtype)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise CampaignError(f"{path}: transformers cannot load it: {error}") from None
        return model.to(self.device).eval()

    def _facts(self, dtype: str) -> Facts:
        assisted = self.assistant is not None
        settings = {
            "attention": str(getattr(self.model.config, "_attn_implementation", "unknown")),
            "device": "cpu",
            "dtype": dtype,
            "torch": self.torch.__version__,
        }
        if self.device == "cpu":
            self.torch.set_num_threads(1)  # of so small a model: more only wait for each other
            settings["threads"] = "1"
        else:
            settings["device"] = self.torch.cuda.get_device_name(self.device)
        if assisted:
            settings["num_assistant_tokens"] = f"{DEPTH}, constant"
            settings["assistant_confidence_threshold"] = "0"
        return Facts(
            name="transformers",
            version=self.package.__version__,
            speculative=assisted,
            supports=ASSISTED if assisted else PLAIN,
            vocab=int(self.model.config.vocab_size),
            settings=settings,
            stop_emitted=True,
            replays=frozenset({"alone", "order"}) if assisted else frozenset(),
            most_concurrent=1 if assisted else 0,
            filters="transformers",
        )

    def close(self) -> None:
        """See the contract."""
        self.model = self.assistant = None

    def reseed(self, seed: int) -> None:
        """What requests without a seed draw from."""
        self.seed = seed

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """See the contract."""
        if asks:
            self.torch.manual_seed((self.seed * 0x9E3779B97F4A7C15 + asks[0].number * 0xD1B54A32D192ED03) & MASK)
        size = 1 if self.assistant is not None else concurrency
        for first in range(0, len(asks), size):
            batches: dict[str, list[Ask]] = {}
            for ask in asks[first : first + size]:
                batches.setdefault(repr(key_of(ask)), []).append(ask)
            for batch in batches.values():
                yield from self._generate(batch)

    def _generate(self, batch: Sequence[Ask]) -> Iterator[Answer]:
        """Requests of equal parameters, together."""
        torch, first = self.torch, batch[0]
        if first.seed is not None:
            torch.manual_seed(first.seed)
        width = max(len(ask.prompt) for ask in batch)
        rows = [[self.pad] * (width - len(ask.prompt)) + list(ask.prompt) for ask in batch]
        mask = [[0] * (width - len(ask.prompt)) + [1] * len(ask.prompt) for ask in batch]
        limits = [ask.length if ask.abort_after is None else min(ask.length, ask.abort_after) for ask in batch]
        ends = self._ends(first)
        options: dict[str, Any] = {}
        if len(set(limits)) > 1:
            stop = rows_end(torch.tensor(limits, device=self.device) + width)
            options["stopping_criteria"] = self.package.StoppingCriteriaList([stop])
        if self.assistant is not None and first.speculate:
            options["assistant_model"] = self.assistant
        with self._steps() as steps, torch.inference_mode():
            out = self.model.generate(
                torch.tensor(rows, device=self.device),
                attention_mask=torch.tensor(mask, device=self.device),
                generation_config=self._config(first, max(limits), ends),
                **options,
            )
        told = self._logprobs(out, width) if first.logprobs is not None else None
        for row, (ask, limit, line) in enumerate(zip(batch, limits, out.sequences[:, width:].tolist(), strict=True)):
            tokens = line[:limit]
            stopped = next((at for at, token in enumerate(tokens) if token in ends), -1)
            if stopped >= 0 and self.assistant is None:  # what follows in a batch is padding
                tokens = tokens[: stopped + 1]
            finish = Finish.STOP if tokens and tokens[-1] in ends else Finish.LENGTH
            if finish is Finish.LENGTH and limit < ask.length:
                finish = Finish.ABORTED
            yield Answer(
                number=ask.number,
                tokens=tuple(tokens),
                finish=finish,
                logprobs=None if told is None else tuple(told[row][: len(tokens)]),
                steps=cut(steps, len(tokens)) if "assistant_model" in options else None,
            )

    def _ends(self, ask: Ask) -> list[int]:
        return [*ask.stop, *([] if ask.ignore_eos else [self.end])]

    def _config(self, ask: Ask, length: int, ends: list[int]) -> Any:
        """What a request asks for; whatever it does not is off."""
        sampled = ask.temperature > 0
        self.model.generation_config.eos_token_id = ends or None  # what a config leaves open is taken from there
        return self.package.GenerationConfig(
            do_sample=sampled,
            eos_token_id=ends or None,
            max_new_tokens=length,
            output_logits=ask.logprobs is not None,
            pad_token_id=self.pad,
            repetition_penalty=ask.repetition_penalty or 1.0,
            return_dict_in_generate=True,
            sequence_bias={(token,): added for token, added in ask.logit_bias.items()} or None,
            **(
                {
                    "min_p": ask.min_p,
                    "temperature": float(ask.temperature),
                    "top_k": ask.top_k or 0,
                    "top_p": 1.0 if ask.top_p is None else ask.top_p,
                }
                if sampled
                else {}
            ),
        )

    def _logprobs(self, out: Any, width: int) -> list[list[float]]:
        """Of each emitted token, from the logits that generate returns, in their dtype's FP32."""
        torch = self.torch
        said = torch.stack([torch.log_softmax(one.float(), dim=-1) for one in out.logits], dim=1)
        tokens = out.sequences[:, width : width + said.shape[1], None]
        found: list[list[float]] = said.gather(2, tokens)[..., 0].double().tolist()
        return found

    @contextmanager
    def _steps(self) -> Iterator[list[int]]:
        """Listen to what candidate generators are told: drafts kept in each step."""
        steps: list[int] = []
        kind = importlib.import_module(GENERATORS).AssistedCandidateGenerator
        told = kind.update_candidate_strategy

        def listen(generator: Any, input_ids: Any, scores: Any, num_matches: Any) -> Any:
            steps.append(int(num_matches) + 1)
            return told(generator, input_ids, scores, num_matches)

        kind.update_candidate_strategy = listen
        try:
            yield steps
        finally:
            kind.update_candidate_strategy = told


def key_of(ask: Ask) -> tuple[Any, ...]:
    """What requests of one batch must share."""
    return (
        ask.temperature,
        ask.top_k,
        ask.top_p,
        ask.min_p,
        sorted(ask.logit_bias.items()),
        ask.repetition_penalty,
        ask.logprobs,
        ask.stop,
        ask.ignore_eos,
        ask.speculate,
        ask.seed,
    )


def rows_end(limits: Any) -> Any:
    """A stopping criterion: each row at its own length."""

    def ended(input_ids: Any, scores: Any, **more: Any) -> Any:
        return limits <= input_ids.shape[1]

    return ended


def cut(steps: Sequence[int], length: int) -> tuple[int, ...]:
    """Steps of an answer that was cut to a length."""
    found, left = [], length
    for size in steps:
        if left <= 0:
            break
        found.append(min(size, left))
        left -= size
    return tuple(found)
