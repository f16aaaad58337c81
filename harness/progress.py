"""Progress on stderr: a bar on a terminal, nothing elsewhere."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bar:
    """One line a stage."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:26}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._stages: dict[str, TaskID] = {}

    def update(self, stage: str, done: int, total: int) -> None:
        """A stage has done this much."""
        if stage not in self._stages:
            self._stages[stage] = self._progress.add_task(stage, total=total)
        self._progress.update(self._stages[stage], completed=done, total=total)

    def say(self, line: str) -> None:
        """A line above the bars, where there is no terminal too."""
        self._progress.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
