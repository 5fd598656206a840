"""A way to a server that breaks when the test says so: bytes in both directions, until the connections are cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Listens on loopback and passes on; :meth:`drop` cuts every connection, and new ones work.

    Args:
        address: ``host:port`` that connections lead to.
        drop_every: cut a connection once that many bytes came back over it; None: never.
    """

    def __init__(self, address: str, *, drop_every: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._to, self._drop_every = (host, int(port)), drop_every
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Cut every connection that is open."""
        with self._lock:
            cut, self._open = self._open, []
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
            except OSError:
                return
            with self._lock:
                self._open += [near, far]
            threading.Thread(target=self._pass_on, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, self._drop_every), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1024):
                passed += len(data)
                if limit is not None and passed > limit:
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
