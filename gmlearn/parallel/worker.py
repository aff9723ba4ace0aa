"""A worker process: ``python -m gmlearn.parallel.worker FD``, started by `Processes` at the
other end of the socket FD.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

#: how long compiled code may go on after the caller has gone, in seconds
PATIENCE = 5.0


def serve(connection: Connection) -> None:
    """Answer requests until the caller goes away."""
    from gmlearn.parallel.host import ShardHost
    from gmlearn.parallel.messages import dumps

    requests: queue.SimpleQueue[tuple[bytes, bytes]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(connection, requests), daemon=True).start()
    host, serial = ShardHost(), 0
    while True:
        head, shared = requests.get()
        serial += 1
        connection.send_bytes(dumps(host.answer(serial, head, shared)))


def _receive(connection: Connection, requests: queue.SimpleQueue) -> None:
    """Pass requests on. The end of the stream ends the process, whatever is being computed for
    nobody.
    """
    try:
        while True:
            requests.put((connection.recv_bytes(), connection.recv_bytes()))
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE)
        os._exit(1)


def _leave(*_: Any) -> None:
    """End as a script ends, so that shards can tidy up (temporary files)."""
    raise SystemExit(0)


if __name__ == "__main__":
    # Ctrl-C is for the caller, who then ends its workers
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    try:
        serve(Connection(int(sys.argv[1])))
    except BrokenPipeError:
        sys.exit(0)
