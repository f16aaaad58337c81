"""The wire itself: a connection that keeps frames apart, between the engine's proxy and the drafter."""

import select
import socket

LARGEST_FRAME = 1 << 16


class Link:
    """One end, a SOCK_SEQPACKET socket: a frame is sent and received whole, or not at all."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._poll = select.poll()
        self._poll.register(end, select.POLLIN)

    def send(self, frame: bytes) -> bool:
        """Send a frame without waiting; False if the peer is gone or takes no more."""
        try:
            return self.end.send(frame, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(frame)
        except (BlockingIOError, BrokenPipeError, ConnectionError):
            return False

    def receive(self, seconds: float | None = None) -> bytes | None:
        """The next frame; None if none comes in time (by default, it is waited for). EOFError if the peer is gone."""
        if seconds is not None and not self._poll.poll(max(0, round(seconds * 1000))):
            return None
        try:
            frame = self.end.recv(LARGEST_FRAME)
        except ConnectionError:
            raise EOFError("the peer is gone") from None
        if not frame and any(seen & select.POLLHUP for _, seen in self._poll.poll(0)):
            raise EOFError("the peer is gone")
        return frame

    def close(self) -> None:
        """Close this end."""
        self.end.close()


def pair() -> tuple[Link, Link]:
    """Two ends of one connection."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Link(ours), Link(theirs)
