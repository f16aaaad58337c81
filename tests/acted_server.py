"""A server that plays what it is given: whole answers, ones that break off, streams cut anywhere."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pp3.harness.engine.contract import Ask

ANSWER = {"choices": [{"token_ids": [3, 4], "finish_reason": "length", "logprobs": None}], "usage": {}}
MODELS = {"data": [{"id": "toy", "owned_by": "vllm", "max_model_len": 99}]}
TWO = Ask(number=7, prompt=(1,), length=2)


class Actor:
    """A server that does as it is told, one act a request; it keeps what it was sent."""

    def __init__(self) -> None:
        self.acts: list[Callable[[socket.socket], bool]] = []
        self.paths: list[str] = []
        self.told: list[tuple[str, bytes]] = []
        self.bodies: list[Any] = []
        self.fixed: dict[str, Any] = {
            "/v1/models": MODELS,
            "/version": {"version": "0.0"},
            "/server_info": {"version": "0.0"},
        }
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.released = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                wire, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(wire,), daemon=True).start()

    def _talk(self, wire: socket.socket) -> None:
        with wire, wire.makefile("rb") as sent:
            while head := sent.readline():
                size = 0
                while (line := sent.readline()).strip():
                    if line.lower().startswith(b"content-length:"):
                        size = int(line.split(b":")[1])
                path = head.split()[1].decode()
                self.paths.append(path)
                body = sent.read(size)
                if path in self.fixed or head.startswith(b"GET"):
                    said = self.fixed.get(path)
                    self.told.append((path, body))
                    wire.sendall(whole({}, "404 Not Found") if said is None else whole(said))
                    continue
                self.bodies.append(json.loads(body))
                if not self.acts.pop(0)(wire):
                    return


@contextmanager
def acting(*acts: Callable[[socket.socket], bool]) -> Iterator[Actor]:
    """A server that will do these acts, one a completion."""
    actor = Actor()
    actor.acts += acts
    try:
        yield actor
    finally:
        actor.released.set()
        actor.listener.close()


def whole(said: Any, status: str = "200 OK", *headers: str) -> bytes:
    """A reply."""
    content = said if isinstance(said, bytes) else json.dumps(said).encode()
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + content


def says(said: Any, status: str = "200 OK", *headers: str) -> Callable[[socket.socket], bool]:
    """An act: reply, and keep the connection."""

    def act(wire: socket.socket) -> bool:
        wire.sendall(whole(said, status, *headers))
        return True

    return act


def breaks(content: bytes) -> Callable[[socket.socket], bool]:
    """An act: send these bytes and close."""

    def act(wire: socket.socket) -> bool:
        wire.sendall(content)
        return False

    return act


def chunked(*events: Any, end: bytes = b"0\r\n\r\n") -> bytes:
    """A stream of events."""
    parts = [b"data: " + (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n\n" for one in events]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + end


def part(tokens: list[int], finish: str | None) -> dict[str, Any]:
    """One event of a stream."""
    return {"choices": [{"token_ids": tokens, "finish_reason": finish, "logprobs": None}]}


GOOD = says(ANSWER)
