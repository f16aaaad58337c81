"""A stand-in for the GPU's clock and streams."""

from pp3.harness.probe.timing import Contestant, Method, Prepared


class Stand:
    """A clock whose time is what each step costs, and a device that runs at once."""

    def __init__(self, costs: dict[str, int] | None = None) -> None:
        self.costs, self.now = costs or {}, 0
        self.said: list[str] = []

    def prepare(self, contestant: Contestant, sets: int, rounds: int) -> Prepared:
        """Nothing is compiled; a round of ours is two launches."""
        contestant.step(0)

        def replay() -> None:
            self.said.append(contestant.name)
            for at in range(rounds):
                contestant.step(at % sets)
                self.now += self.costs.get(contestant.name, 1)

        return Prepared(contestant=contestant, method=Method.GRAPH, rounds=rounds, launches=2, replay=replay)

    def flush(self) -> None:
        """Takes long, outside the events."""
        self.said.append("flush")
        self.now += 1_000_000

    def mark(self) -> int:
        """Now."""
        return self.now

    def between(self, before: int, after: int) -> int:
        """The difference."""
        return after - before

    def wait(self) -> None:
        """Nothing is under way."""
