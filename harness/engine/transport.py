"""One HTTP connection to an engine: a request out, a whole reply or its stream in, within a deadline.

The standard library's client suffices: requests are few and long, one thread each, and what matters here (a deadline
for the whole reply, a reply cut short, a hang-up in its middle) lies at the socket.
"""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from pp3.harness.errors import CampaignError

LARGEST = 1 << 28  # bytes of a reply
SHOWN = 300  # characters of an engine's own words
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
REFUSED = frozenset({425, 429, 503})  # said instead of beginning to answer


class AttemptError(Exception):
    """An attempt that failed. `again`: another one may succeed; `after`: seconds that the engine asks to wait.

    `refused`: the engine had not begun to answer, so that nothing about the answer made it fail.
    """

    def __init__(self, reason: str, *, again: bool, after: float | None = None, refused: bool = False) -> None:
        super().__init__(reason)
        self.again = again
        self.after = after
        self.refused = refused


class HungUpError(Exception):
    """The caller closed the connection itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where an engine is."""

    url: str  # as the user gave it
    host: str
    port: int | None
    base: str  # path before /v1
    secure: bool
    key: str | None = None  # sent as a bearer token, shown nowhere

    @classmethod
    def of(cls, url: str, key: str | None = None) -> "Address":
        """Raises CampaignError for what is no URL of http or https, or carries a name, a query or a fragment."""
        try:
            parts: SplitResult = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise CampaignError(f"engine {url!r} is no URL ({error}); give http://HOST:PORT") from error
        if parts.scheme not in ("http", "https") or not host:
            raise CampaignError(f"engine {url!r} is no URL; give http://HOST:PORT or https://HOST:PORT")
        if parts.query or parts.fragment or parts.username:
            raise CampaignError(f"engine {host!r}: the URL has a user name, a query or a fragment; leave them out")
        base = parts.path.rstrip("/").removesuffix("/v1")
        return cls(url=url, host=host, port=port, base=base, secure=parts.scheme == "https", key=key)


class Line:
    """A connection that is kept open between requests of one thread; `hang_up` may be called from another."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._open: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None  # outlives the connection where a reply is its last
        self._used = False
        self._hung_up = False

    def exchange(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> Any:
        """The JSON of a reply that came whole, within so many seconds. Raises AttemptError or HungUpError."""
        return _json(self.content(method, path, body, seconds))

    def content(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> bytes:
        """The bytes of such a reply."""
        deadline = time.monotonic() + seconds
        with _Guard(self, seconds):
            response = self._begin(method, path, body, deadline)
            content = b"".join(self._pieces(response, deadline))
            self._check(response, content)
        return content

    def events(self, path: str, body: Mapping[str, Any], seconds: float) -> Generator[Any, None, None]:
        """The JSON of each event of a stream, until its end; a caller that stops hangs up.

        Whether the answer was whole is the caller's to see: engines end a stream differently. Raises as `exchange`.
        """
        deadline = time.monotonic() + seconds
        with _Guard(self, seconds):
            response = self._begin("POST", path, body, deadline)
            if response.status != http.client.OK:
                self._check(response, b"".join(self._pieces(response, deadline)))
            pending = b""
            for piece in self._pieces(response, deadline):
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    content = line.strip()
                    if not content.startswith(b"data:"):
                        continue
                    content = content.removeprefix(b"data:").strip()
                    if content != b"[DONE]":
                        yield _json(content)

    def hang_up(self) -> None:
        """Close in the middle of whatever goes on: the thread that waits for it gets HungUpError."""
        self._hung_up = True
        self.drop()

    def drop(self) -> None:
        """Close; the next request opens anew."""
        connection, self._open = self._open, None
        wire, self._socket = self._socket, None
        self._used = False
        if wire is not None:
            with suppress(OSError):  # the other side was faster
                wire.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        if connection is not None:
            connection.close()

    def _begin(
        self, method: str, path: str, body: Mapping[str, Any] | None, deadline: float
    ) -> http.client.HTTPResponse:
        """Send and read up to the headers. A connection kept open that the engine has closed is opened anew, once."""
        content = None if body is None else json.dumps(body).encode()
        while True:
            stale = self._used
            connection = self._connection(deadline)
            try:
                connection.request(method, self.address.base + path, content, self._headers(content))
                self._socket = connection.sock
                if self._hung_up:
                    raise HungUpError
                response = connection.getresponse()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.drop()
                if not stale or self._hung_up:
                    raise
                continue
            self._used = True
            return response

    def _headers(self, content: bytes | None) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = "application/json"
        if self.address.key is not None:
            headers["Authorization"] = f"Bearer {self.address.key}"
        return headers

    def _connection(self, deadline: float) -> http.client.HTTPConnection:
        left = _left(deadline)
        if self._open is None:
            if self.address.secure:
                self._open = http.client.HTTPSConnection(
                    self.address.host, self.address.port, timeout=left, context=ssl.create_default_context()
                )
            else:
                self._open = http.client.HTTPConnection(self.address.host, self.address.port, timeout=left)
        self._open.timeout = left
        if self._open.sock is not None:
            self._open.sock.settimeout(left)
        return self._open

    def _pieces(self, response: http.client.HTTPResponse, deadline: float) -> Iterator[bytes]:
        """The body as it comes. A deadline holds for all of it, so that a reply that drips is seen as slow."""
        declared, size = response.getheader("Content-Length"), 0
        whole = int(declared) if declared is not None and not response.chunked else None
        while whole is None or size < whole:
            wire = self._socket
            if wire is None:
                raise HungUpError
            wire.settimeout(_left(deadline))
            piece = response.read1(1 << 16 if whole is None else min(1 << 16, whole - size))
            if not piece and whole is None:
                break
            if not piece:
                raise http.client.IncompleteRead(b"", whole and whole - size)
            size += len(piece)
            if size > LARGEST:
                raise AttemptError(f"a reply of more than {LARGEST:,} bytes", again=False)
            yield piece
        response.close()  # read1 does not notice the end

    def _check(self, response: http.client.HTTPResponse, content: bytes) -> None:
        if response.status == http.client.OK:
            return
        raise AttemptError(
            f"HTTP {response.status} {response.reason}: {_words(content)}",
            again=response.status in RETRIED,
            after=_seconds(response.getheader("Retry-After")),
            refused=response.status in REFUSED,
        )


class _Guard:
    """Turns what a socket can do wrong into AttemptError; one with something left unread is not kept."""

    def __init__(self, line: Line, seconds: float) -> None:
        self.line = line
        self.seconds = seconds

    def __enter__(self) -> None:
        if self.line._hung_up:
            raise HungUpError

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            return
        self.line.drop()
        if self.line._hung_up:
            raise HungUpError from error
        match error:
            case TimeoutError():
                raise AttemptError(f"no whole reply within {self.seconds:g} s", again=True) from error
            case http.client.IncompleteRead():
                raise AttemptError("the reply was cut short", again=True) from error
            case ConnectionRefusedError():
                raise AttemptError("connection refused: nothing listens there", again=True, refused=True) from error
            case socket.gaierror():
                raise AttemptError(f"the host is not known ({error.strerror})", again=False) from error
            case ssl.SSLError():
                raise AttemptError(f"TLS failed ({error.reason})", again=False) from error
            case http.client.HTTPException() | ConnectionError():
                raise AttemptError(f"the connection broke ({type(error).__name__})", again=True) from error
            case OSError():
                raise AttemptError(
                    f"the connection failed ({error.strerror or type(error).__name__})", again=True
                ) from error


def _left(deadline: float) -> float:
    """Seconds until the deadline. Raises TimeoutError past it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise AttemptError(f"the reply is no JSON ({len(content)} bytes)", again=True) from error


def _words(content: bytes) -> str:
    """What an engine says of an error, short. Only its message: a body may echo a prompt."""
    try:
        said = json.loads(content)
    except ValueError:
        return f"{len(content)} bytes that are no JSON"
    error = said.get("error", said) if isinstance(said, dict) else said
    message = error.get("message", error.get("detail", "")) if isinstance(error, dict) else error
    return str(message)[:SHOWN] or "without a message"


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; a date or nonsense counts as not given."""
    try:
        return None if header is None else max(0.0, float(header))
    except ValueError:
        return None
