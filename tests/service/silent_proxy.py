"""A network between a service and PostgreSQL that can fall silent: it takes everything, and passes nothing on."""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path


class SilentProxy:
    """Listens on a port of this machine, and passes bytes to the socket of a server until it is told to be silent."""

    def __init__(self, folder: Path) -> None:
        self._server = str(next(folder.glob(".s.PGSQL.*[0-9]")))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._known = selectors.DefaultSelector()
        self._known.register(self._listening, selectors.EVENT_READ)
        self.silent = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for one in [self._listening, *self._pairs]:
            one.close()

    def _pass_on(self) -> None:
        while not self._ended.is_set():
            if self.silent.is_set():
                self._ended.wait(0.05)
                continue
            for key, _ in self._known.select(0.05):
                if key.fileobj is self._listening:
                    self._join(self._listening.accept()[0])
                elif not self.silent.is_set():
                    self._pass(key.fileobj)  # type: ignore[arg-type]

    def _join(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._server)
        self._pairs |= {client: server, server: client}
        for one in (client, server):
            self._known.register(one, selectors.EVENT_READ)

    def _pass(self, one: socket.socket) -> None:
        other = self._pairs.get(one)
        try:
            data = one.recv(65536)
            if data and other is not None:
                other.sendall(data)
                return
        except OSError:
            pass
        for each in (one, other):
            if each is not None and each in self._pairs:
                self._known.unregister(each)
                del self._pairs[each]
                each.close()
