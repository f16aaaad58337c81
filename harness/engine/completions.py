"""An engine behind HTTP: vLLM, SGLang, llama.cpp's server or any that speaks OpenAI's completions.

An answer counts only when it came whole. What was cut short, refused for now or timed out is asked again, a bounded
number of times, and the new answer takes the place of the old one; so nothing is counted twice.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, TypeVar

from pp3.harness.engine.contract import LOST, REFUSED, Answer, Ask, Engine, Facts, Finish
from pp3.harness.engine.dialect import Dialect, Part
from pp3.harness.engine.dialect_openai import OpenAI
from pp3.harness.engine.entire import check, whole
from pp3.harness.engine.meeting import MALFORMED, NAMES, dialect_of, entry_of, hold_speculation, hold_words
from pp3.harness.engine.transport import Address, AttemptError, HungUpError, Line
from pp3.harness.engine.words import Words, words_of
from pp3.harness.errors import CampaignError

PAUSE, LONGEST_PAUSE = 0.25, 8.0  # seconds before asking again, doubled each time
PATIENCE = 60.0  # seconds that a Retry-After may ask for
Result = TypeVar("Result")


def connect(
    url: str,
    model: str,
    vocab: int,
    *,
    speculate: bool,
    timeout_s: float = 120.0,
    retries: int = 3,
    dialect: str = "auto",
    texts: Mapping[str, int] | None = None,
    filters: str | None = None,
    key: str | None = None,
    prompts: str = "ids",
) -> Engine:
    """Reach an engine and check that it serves this model.

    `vocab` is the checkpoint's; `speculate` says whether the engine was started with speculation, which is held against
    what it tells, where it tells; `texts` maps token texts to ids, for prompts that are sent as text (`prompts`) and
    where ids are not told (dialect openai); `filters` names the engine's line of filter_rules.ENGINES where the dialect
    does not settle it; `key` is sent as a bearer token. Seconds bound a whole answer. Raises CampaignError for an
    engine that is down or slow, a wrong model, another tokenizer, or an option out of range.
    """
    if not timeout_s > 0:
        raise CampaignError(f"timeout {timeout_s!r} s; give more than 0")
    if not 0 <= retries <= 20:
        raise CampaignError(f"retries {retries!r}; give 0 to 20")
    if dialect not in NAMES:
        raise CampaignError(f"dialect {dialect!r} is unknown; choose from {', '.join(NAMES)}")
    words = None
    if prompts == "text":
        if texts is None:
            raise CampaignError("prompts as text need the texts of the checkpoint's tokenizer; give them")
        words = words_of(texts)
    engine = CompletionsEngine(Address.of(url, key), model, timeout_s, retries, words)
    try:
        engine.meet(vocab, speculate, dialect, texts, filters)
    except BaseException:
        engine.close()
        raise
    return engine


class CompletionsEngine:
    """See the contract. `replaced` counts attempts that were replaced by another: refused, or lost on their way."""

    facts: Facts

    def __init__(
        self, address: Address, model: str, timeout_s: float, retries: int, words: Words | None = None
    ) -> None:
        self.address, self.model, self.words = address, model, words
        self.timeout_s, self.retries = timeout_s, retries
        self.replaced = {LOST: 0, REFUSED: 0}
        self._dialect: Dialect = OpenAI()
        self._lines = threading.local()
        self._open: set[Line] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def meet(
        self, vocab: int, speculate: bool, dialect: str, texts: Mapping[str, int] | None, filters: str | None
    ) -> None:
        """Ask what is served, and settle the dialect and the facts."""
        entry = entry_of(self._patiently("GET", "/v1/models"), self.model, self.address.url)
        self._dialect = dialect_of(dialect, str(entry.get("owned_by")), texts)
        told = (entry.get("meta") or {}).get("n_vocab")
        if told is not None and told != vocab:
            raise CampaignError(f"engine {self.address.url}: {told} tokens; the checkpoint has {vocab}: another model")
        version, settings = self._about()
        if "max_model_len" in entry:
            settings["max_model_len"] = str(entry["max_model_len"])
        settings |= {"retries": str(self.retries), "timeout": f"{self.timeout_s:g} s"}
        settings["speculates"] = hold_speculation(self._line(), self._dialect, speculate, self.timeout_s)
        self.facts = Facts(
            name=f"{self._dialect.name} over HTTP",
            version=version,
            speculative=speculate,
            supports=self._dialect.supports(speculate),
            vocab=vocab,
            settings={"model": self.model, **settings},
            stop_emitted=self._dialect.stop_emitted,
            replays=self._dialect.replays,
            filters=filters or self._dialect.filters,
            logprobs_of=self._dialect.logprobs_of,
        )
        if self.words is not None:
            hold_words(self._line(), self._dialect, self.words, self.model, self.timeout_s)
        self._hang_up()

    def answers(self, asks: Sequence[Ask], concurrency: int) -> Iterator[Answer]:
        """See the contract: one thread and connection each; the next ask is sent when an answer has come whole."""
        if concurrency < 1:
            raise CampaignError(f"concurrency {concurrency}; give 1 or more")
        if len({ask.number for ask in asks}) < len(asks):
            raise CampaignError("two asks have one number; number them apart, since answers are matched by it")
        for ask in asks:
            check(ask, self.facts)
        self._stopped.clear()
        waiting = iter(asks)
        pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ask")
        try:
            running = {pool.submit(self._answer, ask) for ask in islice(waiting, concurrency)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                ended = [future.result() for future in done if future.exception() is None]
                if len(ended) == len(done):
                    running |= {pool.submit(self._answer, ask) for ask in islice(waiting, len(done))}
                yield from sorted(ended, key=lambda answer: answer.number)
                for future in done:
                    future.result()
        except BaseException:
            self._stopped.set()
            raise
        finally:
            self._hang_up()
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """See the contract."""
        self._stopped.set()
        self._hang_up()

    def _about(self) -> tuple[str, dict[str, str]]:
        path = self._dialect.about
        if path is None:
            return self._dialect.settings(None)
        try:
            return self._dialect.settings(self._patiently("GET", path))
        except MALFORMED as error:
            raise CampaignError(
                f"engine {self.address.url}: {path} does not answer as {self._dialect.name} does; choose its dialect"
            ) from error

    def _answer(self, ask: Ask) -> Answer:
        body = self._dialect.body(ask, self.model)
        if self.words is not None:
            ids, text = self._dialect.prompt_keys
            del body[ids]
            body[text] = self.words.text(ask.prompt)

        def attempt(line: Line) -> Answer:
            try:
                if ask.abort_after is None:
                    part = self._dialect.part(line.exchange("POST", self._dialect.path, body, self.timeout_s))
                else:
                    part = self._streamed(line, body, ask.abort_after)
            except MALFORMED as error:
                raise AttemptError(
                    f"the answer is not what {self._dialect.name} gives ({type(error).__name__}); choose its dialect",
                    again=False,
                ) from error
            return whole(ask, part, self.facts)

        return self._attempts(attempt, f"ask {ask.number}")

    def _streamed(self, line: Line, body: Mapping[str, Any], enough: int) -> Part:
        """Read a stream until it ends or has brought enough tokens; then hang up."""
        tokens, logprobs, told, read = tuple[int, ...](), tuple[float, ...](), False, None
        events = line.events(self._dialect.path, body, self.timeout_s)
        try:
            for event in events:
                part = self._dialect.part(event)
                told |= part.logprobs is not None
                read = part.read if read is None else read
                tokens = part.tokens if part.from_start else tokens + part.tokens
                logprobs = (part.logprobs or ()) if part.from_start else logprobs + (part.logprobs or ())
                finish = part.finish
                if len(tokens) >= enough and finish is None:
                    tokens, logprobs, finish = tokens[:enough], logprobs[:enough], Finish.ABORTED
                if finish is not None:
                    return Part(
                        tokens=tokens,
                        logprobs=logprobs if told else None,
                        finish=finish,
                        counted=part.counted if finish is not Finish.ABORTED else None,
                        read=read,
                        read_count=part.read_count,
                    )
        finally:
            events.close()
        raise AttemptError(f"the stream ended after {len(tokens)} tokens without saying why", again=True)

    def _patiently(self, method: str, path: str) -> Any:
        return self._attempts(lambda line: line.exchange(method, path, None, self.timeout_s), f"{method} {path}")

    def _attempts(self, attempt: Callable[[Line], Result], what: str) -> Result:
        """The first result of so many attempts. Raises CampaignError when none is left or none would help."""
        for number in range(self.retries + 1):
            try:
                return attempt(self._line())
            except HungUpError as error:
                raise CampaignError(f"engine {self.address.url}: {what} was given up") from error
            except AttemptError as fault:
                pause = min(PAUSE * 2**number, LONGEST_PAUSE) if fault.after is None else fault.after
                if not fault.again or number == self.retries or pause > PATIENCE:
                    raise CampaignError(self._lost(what, fault, number + 1, pause)) from fault
                with self._lock:
                    self.replaced[REFUSED if fault.refused else LOST] += 1
                self._stopped.wait(pause)
        raise AssertionError("unreachable")

    def _lost(self, what: str, fault: AttemptError, attempts: int, pause: float) -> str:
        said = f"engine {self.address.url}: {what}: {fault}"
        if not fault.again:
            return said
        if pause > PATIENCE:
            return (
                f"{said}; it asks to wait {pause:g} s, the limit is {PATIENCE:g}: come back later, or ask less at once"
            )
        return (
            f"{said}; after {attempts} attempts. See that the engine is up and answers within {self.timeout_s:g} s, "
            "or give --answer-timeout, --retries or less --concurrency; what ended before is kept where --dir is given"
        )

    def _line(self) -> Line:
        """This thread's connection."""
        line: Line | None = getattr(self._lines, "line", None)
        if line is None or line not in self._open:
            line = self._lines.line = Line(self.address)
            with self._lock:
                self._open.add(line)
        if self._stopped.is_set():
            raise HungUpError
        return line

    def _hang_up(self) -> None:
        """Close every connection; an attempt that is under way ends, in whatever thread."""
        with self._lock:
            lines, self._open = self._open, set()
        for line in lines:
            line.hang_up()
