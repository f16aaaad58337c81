"""The process of a proxy: `python -m pp3.harness.transport.proxy_process JSON`, started by proxy.ProcessProxy.

Ends by its command, or with the engine: then the pipe of commands has no writer. Ctrl-C is the engine's to handle.
"""

import json
import mmap
import signal
import socket
import sys

import numpy as np

from pp3.harness.transport.frame import Mode
from pp3.harness.transport.hello import Hello
from pp3.harness.transport.layout import PAGE_BYTES
from pp3.harness.transport.link import Link
from pp3.harness.transport.serve import Proxy, Terms


def main() -> None:
    """Serve one session."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    said = json.loads(sys.argv[1])
    target, draft, markov = (bytes.fromhex(identity) for identity in said["identities"])
    count = said["claims"] + 1
    whole = np.frombuffer(mmap.mmap(said["memory"], count * PAGE_BYTES), np.uint8)
    pages = [whole[i * PAGE_BYTES : (i + 1) * PAGE_BYTES] for i in range(count)]
    terms = Terms(
        mine=Hello(mode=Mode(said["mode"]), target=target, draft=draft, markov=markov),
        session=bytes.fromhex(said["session"]),
        depth=said["depth"],
        vocab=said["vocab"],
    )
    link = Link(socket.socket(fileno=said["link"]))
    try:
        Proxy(pages[0], pages[1:], said["commands"], said["records"], link, terms).run()
    except BrokenPipeError:
        return  # the engine is gone


if __name__ == "__main__":
    main()
