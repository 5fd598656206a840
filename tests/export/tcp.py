"""A connection to a server that a test can break: bytes pass in both directions until they are cut off or stop."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Listens on loopback and passes on; :meth:`drop` cuts every connection, and new ones work.

    Attributes:
        silent: nothing is passed on any more, and connections stay open, as with a server that is frozen.
        silent_at: ``silent`` from the bytes on that hold this, on their way to the server.
        silent_to_new: connections that are made from now on are silent.
        cut_before, cut_after: the connection is cut at the bytes that hold this, once: before they, or the answer to
            them, are passed on.

    Args:
        address: ``host:port`` that connections lead to, or the path of a unix socket.
        drop_every: cut a connection once that many bytes came back over it; None: never.
    """

    def __init__(self, address: str, *, drop_every: int | None = None) -> None:
        self.silent = self.silent_to_new = False
        self.silent_at: bytes | None = None
        self.cut_before: bytes | None = None
        self.cut_after: bytes | None = None
        self._cuts: set[socket.socket] = set()  # the sides whose next bytes are not passed on
        self.fell_silent = threading.Event()
        self._ended = threading.Event()
        self._to, self._drop_every = address, drop_every
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
        self._ended.set()
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
                far = self._connect()
            except OSError:
                return
            with self._lock:
                self._open += [near, far]
            if self.silent_to_new:
                self.fell_silent.set()
                continue
            threading.Thread(target=self._pass_on, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(far, near, self._drop_every), daemon=True).start()

    def _connect(self) -> socket.socket:
        if self._to.startswith("/"):
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._to)
            return far
        host, _, port = self._to.rpartition(":")
        return socket.create_connection((host, int(port)))

    def _pass_on(self, source: socket.socket, target: socket.socket, limit: int | None) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while data := source.recv(1024):
                passed += len(data)
                if limit is not None and passed > limit:
                    break
                if limit is None and self.silent_at is not None and self.silent_at in data:
                    self.silent = True
                if source in self._cuts:
                    break
                if self.cut_before is not None and self.cut_before in data:
                    self.cut_before = None
                    break
                if self.cut_after is not None and self.cut_after in data:
                    self.cut_after = None
                    self._cuts.add(target)
                if self.silent:
                    self.fell_silent.set()
                    self._ended.wait()
                    break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
