"""A webhook that wakes the bridge: whatever Label Studio posts starts a pass, and its content is ignored."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from osamd.errors import InputError

LARGEST = 2**20
"""The largest body that is read (and dropped), in bytes."""


@contextmanager
def listening(place: str | None, wake: threading.Event) -> Iterator[str]:
    """Set `wake` on every POST to HOST:PORT and yield the address; without a place, do nothing."""
    if place is None:
        yield ""
        return
    host, _, port = place.rpartition(":")
    try:
        server = ThreadingHTTPServer((host or "127.0.0.1", int(port)), _handler(wake))
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(f"`listening(listen={place!r})`: cannot listen there ({error}); give HOST:PORT.") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host or '127.0.0.1'}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _handler(wake: threading.Event) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_POST(self) -> None:
            length = self.headers.get("content-length", "0")
            if length.isdecimal() and int(length) <= LARGEST:
                self.rfile.read(int(length))
            wake.set()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    return Handler
