"""Our own engine as a server: vLLM's dialect of OpenAI's completions around runner.py, sound or with a planted fault.

`python -m pp3.harness.engine.server --target chain-64 --port 0` prints its URL and serves until it is ended. It is for
tests and trials of the adapter and the battery, on this machine: it has neither a key nor a limit on who may ask.
"""

import json
import os
import queue
import select
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

from pp3.harness.engine.contract import Ask
from pp3.harness.engine.model import NAMES, load
from pp3.harness.engine.runner import Emitted, Request, Runner
from pp3.harness.engine.runner_faults import FAULTS
from pp3.harness.engine.spoken import RefusalError, ask_of, completion, event, tokens_of
from pp3.harness.errors import CampaignError, Exit

LONGEST_BODY = 1 << 24  # bytes
VERSION = "1"


class Engine:
    """A runner and the thread that steps it."""

    def __init__(self, runner: Runner, name: str) -> None:
        self.runner, self.name = runner, name
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self.thread.start()

    def submit(self, ask: Ask) -> tuple[Request, "queue.SimpleQueue[Emitted]"]:
        """Queue a request; what each step emits comes through the queue."""
        emitted: queue.SimpleQueue[Emitted] = queue.SimpleQueue()
        with self.changed:
            request = self.runner.submit(ask, emitted.put)
            self.changed.notify()
        return request, emitted

    def _run(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: bool(self.runner.waiting) or any(self.runner.slots))
            try:
                self.runner.step()
            except Exception:
                traceback.print_exc()
                os._exit(Exit.INTERNAL)  # callers see the connection break; they must not wait for ever


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        """What is served."""
        match self.path:
            case "/v1/models":
                model = self.server.engine.runner.model
                entry = {"id": self.server.engine.name, "object": "model", "owned_by": "pp3"}
                self._reply({"object": "list", "data": [entry | {"meta": {"n_vocab": model.vocab}}]})
            case "/version":
                runner = self.server.engine.runner
                settings = {"target": runner.model.name, "slots": len(runner.slots), "depth": runner.depth}
                self._reply({"version": VERSION, "settings": settings})
            case "/health":
                self._reply({"status": "ok"})
            case _:
                self._refuse(RefusalError(f"{self.path} is not served", HTTPStatus.NOT_FOUND))

    def do_POST(self) -> None:
        """A completion."""
        size = int(self.headers.get("Content-Length", 0))
        if size > LONGEST_BODY:
            self.close_connection = True
            return self._refuse(RefusalError(f"a body of {size} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
        content = self.rfile.read(size)
        if self.path not in ("/v1/completions", "/tokenize"):
            return self._refuse(RefusalError(f"{self.path} is not served", HTTPStatus.NOT_FOUND))
        engine = self.server.engine
        try:
            body = json.loads(content)
            if self.path == "/tokenize":
                tokens = tokens_of(str(body["prompt"]))
                return self._reply({"count": len(tokens), "tokens": tokens})
            ask = ask_of(body, engine.name, engine.runner.model.vocab)
        except (ValueError, KeyError, TypeError) as error:
            return self._refuse(RefusalError(f"the body is no JSON of a request: {error}"))
        except RefusalError as refusal:
            return self._refuse(refusal)
        request, emitted = engine.submit(ask)
        steps = self._steps(request, emitted)
        if body.get("stream"):
            return self._stream(steps, ask, engine.name)
        every = list(steps)
        if not request.gone:
            self._reply(completion(every, ask, engine.name))
        return None

    def log_message(self, *_: object) -> None:
        """Nothing is written about requests."""

    def _steps(self, request: Request, emitted: "queue.SimpleQueue[Emitted]") -> Iterator[Emitted]:
        """Until the answer ends; a caller that has hung up ends it at its next step."""
        while True:
            step = None
            with suppress(queue.Empty):
                step = emitted.get(timeout=1.0)
            if self._left():
                request.gone = self.close_connection = True
                return
            if step is not None:
                yield step
                if step.finish is not None:
                    return

    def _left(self) -> bool:
        """Whether the caller has closed the connection."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        try:
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _stream(self, steps: Iterator[Emitted], ask: Ask, name: str) -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for step in steps:
                self._chunk(b"data: " + json.dumps(event(step, ask, name)).encode() + b"\n\n")
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
        except OSError:
            self.close_connection = True

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))

    def _reply(self, said: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        content = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _refuse(self, refusal: RefusalError) -> None:
        self._reply({"error": {"message": str(refusal), "code": int(refusal.status)}}, refusal.status)


class Server(ThreadingHTTPServer):
    """On the loopback interface."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, engine: Engine, port: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.engine = engine


@click.command()
@click.option("--target", type=click.Choice(NAMES), required=True, help="Whose law is served.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0: any that is free.")
@click.option("--model", default="own", show_default=True, help="Name that it is served by.")
@click.option("--slots", type=click.IntRange(1, 256), default=8, show_default=True, help="Requests in flight.")
@click.option("--depth", type=click.IntRange(0, 16), default=0, show_default=True, help="Drafts a step; 0: plain.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Of requests that bring none; else a random one.")
@click.option("--fault", type=click.Choice(tuple(FAULTS)), help="Serve wrongly, on purpose.")
def main(target: str, port: int, model: str, slots: int, depth: int, seed: int | None, fault: str | None) -> None:
    """Serve a target's law over HTTP, on this machine."""
    if fault is not None and FAULTS[fault].speculative and depth == 0:
        raise click.UsageError(f"--fault {fault} shows only with speculation; give --depth 1 or more")
    runner = FAULTS[fault].runner if fault is not None else Runner
    own = int.from_bytes(os.urandom(7), "little") if seed is None else seed
    try:
        server = Server(Engine(runner(load(target), slots=slots, depth=depth, seed=own), model), port)
    except CampaignError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:
        raise click.UsageError(f"port {port}: {error.strerror}; give --port 0") from error
    click.echo(f"http://127.0.0.1:{server.server_address[1]}")
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()


if __name__ == "__main__":
    main()
