"""Runs a real pgbouncer in transaction mode in front of a test server, if pgbouncer is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PATIENCE = 30.0


class PgbouncerMissing(Exception):
    """No pgbouncer: install it (apt-get install pgbouncer)."""


def version() -> tuple[int, ...]:
    """Return the installed version; ``max_prepared_statements`` came with (1, 21)."""
    said = subprocess.run([_binary(), "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(map(int, said.split()[1].split(".")[:2]))


def _binary() -> str:
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if found is None:
        raise PgbouncerMissing(PgbouncerMissing.__doc__)
    return found


@contextmanager
def pgbouncer(server_url: str, **settings: object) -> Iterator[str]:
    """Run a pgbouncer with few server connections; the block gets its URL.

    Args:
        server_url: the server, on a unix socket.
        settings: further settings of pgbouncer.
    """
    where = urlsplit(server_url)
    with tempfile.TemporaryDirectory(prefix="drainq-pgb-", dir="/tmp") as home:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        lines = {
            "listen_addr": "127.0.0.1", "listen_port": port, "unix_socket_dir": "", "auth_type": "any",
            "pool_mode": "transaction", "default_pool_size": 2, "logfile": f"{home}/log", **settings,
        }  # fmt: skip
        config = Path(home, "pgbouncer.ini")
        host = parse_qs(where.query)["host"][0]
        config.write_text(
            f"[databases]\npostgres = host={host} dbname=postgres user={where.username}\n[pgbouncer]\n"
            + "".join(f"{name} = {value}\n" for name, value in lines.items())
        )
        account: dict[str, object] = {}
        if os.geteuid() == 0:  # pgbouncer refuses to run as root, and the server's account may use its socket
            owner = pwd.getpwuid(os.stat(host).st_uid)
            os.chown(home, owner.pw_uid, owner.pw_gid)
            account = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        running = subprocess.Popen(
            [_binary(), "-q", config], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **account
        )  # type: ignore[call-overload]
        try:
            end = time.monotonic() + PATIENCE
            while not _takes_connections(port):
                assert running.poll() is None and time.monotonic() < end, Path(home, "log").read_text()
            yield f"postgresql://{where.username}@127.0.0.1:{port}/postgres"
        finally:
            running.terminate()
            running.wait(PATIENCE)


def _takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
