"""The programs of docs/howto/deploy.md and of the tutorials, as processes: SIGTERM loses nothing that they accepted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from drainq.delayed import DelayedQueue
from drainq.sql import Database
from tests.patience import PATIENCE
from tests.shape.documents import blocks
from tests.shape.project import ROOT

from .monitoring.endpoint import samples

pytestmark = pytest.mark.system
for server in ("starlette", "uvicorn", "gunicorn"):
    pytest.importorskip(server)

DOCS = ROOT / "docs"
POSTS, ITEMS_EACH = 50, 100
METERED = """
from contextlib import asynccontextmanager
from starlette.applications import Starlette
from drainq.monitoring import metrics_target
import service

@asynccontextmanager
async def lifespan(app):
    with metrics_target("targets"):
        async with service.lifespan(app):
            yield

app = Starlette(lifespan=lifespan, routes=service.routes)
"""


def block(page: str, mark: str) -> str:
    (found,) = [block.code for block in blocks(DOCS / page) if mark in block.code and block.language == "python"]
    return found


def until(ready: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert process.poll() is None and time.monotonic() < deadline
        threading.Event().wait(0.05)


def accepts(url: str, body: bytes) -> bool:
    try:
        with urlopen(Request(url, data=body), timeout=PATIENCE) as answer:
            return answer.status == 202
    except URLError:
        return False


@pytest.mark.parametrize(
    ("page", "command", "database"),
    [
        ("howto/deploy.md", "uvicorn metered:app --port {port}", "sqlite"),
        ("howto/deploy.md", "uvicorn metered:app --port {port} --workers 2", "sqlite"),
        ("howto/deploy.md", "gunicorn metered:app --bind 127.0.0.1:{port} -k asgi -w 2", "sqlite"),
        ("howto/deploy.md", "gunicorn wsgi_service:wsgi --bind 127.0.0.1:{port} -w 2", "sqlite"),
        ("tutorials/service.md", "uvicorn metered:app --port {port}", "sqlite"),
        ("tutorials/service.md", "uvicorn metered:app --port {port} --workers 2", "postgres"),
    ],
)
def test_a_web_server_that_gets_sigterm_loses_no_item(page, command, database, tmp_path, request, monkeypatch):
    store = request.getfixturevalue("own_postgres").url if database == "postgres" else f"sqlite:///{tmp_path}/visits.db"
    monkeypatch.setenv("VISITS_URL", store)
    service = block(page, "# service.py")
    (tmp_path / "service.py").write_text(service)
    (tmp_path / "wsgi_service.py").write_text(block("howto/deploy.md", "# wsgi_service.py"))
    (tmp_path / "metered.py").write_text(METERED)
    targets = tmp_path / "targets"
    targets.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/visits"
    metered = 0 if "wsgi" in command else 2 if "2" in command.split() else 1
    arguments = [sys.executable, "-m", *command.format(port=port).split()]
    with Database(store) as rows, (tmp_path / "log").open("wb") as log:
        rows.execute(f"CREATE TABLE visits (page TEXT{', browser TEXT' * page.startswith('tutorials')})")
        rows.execute("BEGIN IMMEDIATE" if database == "sqlite" else "BEGIN")
        if database == "postgres":
            rows.execute("LOCK TABLE visits IN SHARE MODE")  # so no item is stored before the signal comes
        process = subprocess.Popen(arguments, cwd=tmp_path, stdout=log, stderr=log)
        try:
            until(lambda: len(list(targets.iterdir())) == metered and accepts(url, b""), process)
            for post in range(POSTS):
                assert accepts(url, b"\n".join(b"%d" % (post * ITEMS_EACH + n) for n in range(ITEMS_EACH)))
            assert accepted_by(targets) == (POSTS * ITEMS_EACH if metered else 0)
            process.send_signal(signal.SIGTERM)
            rows.execute("COMMIT")
            ended = process.wait(PATIENCE)
        finally:
            process.kill()
        (found,) = map(tuple, rows.execute("SELECT count(*), count(DISTINCT page) FROM visits"))
    assert (found, ended in (0, -signal.SIGTERM)) == ((POSTS * ITEMS_EACH,) * 2, True), (tmp_path / "log").read_text()
    assert list(targets.iterdir()) == []


def test_page_views_that_a_database_does_not_take_until_the_end_are_kept_and_sent_by_the_next_process(tmp_path):
    page, store = "tutorials/service.md", f"sqlite:///{tmp_path}/visits.db"
    lifespan = block(page, "# lifespan.py").replace("retry_for=5.0", "retry_for=0.2")
    service = block(page, "# service.py").replace("\n\nroutes = ", f"\n\n{lifespan}\n\nroutes = ")
    (tmp_path / "service.py").write_text(service)
    views = b" ".join(b"/%d" % n for n in range(ITEMS_EACH))

    def run(*, locked: bool) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port)]
        with Database(store) as rows, (tmp_path / "log").open("ab") as log:
            rows.execute("CREATE TABLE IF NOT EXISTS visits (page TEXT, browser TEXT)")
            if locked:
                rows.execute("BEGIN IMMEDIATE")
            environment = {**os.environ, "VISITS_URL": store}
            process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=environment)
            try:
                until(lambda: accepts(f"http://127.0.0.1:{port}/visits", b""), process)
                if locked:
                    assert accepts(f"http://127.0.0.1:{port}/visits", views)
                else:
                    until(lambda: rows.execute("SELECT count(*) FROM visits")[0][0] == ITEMS_EACH, process)
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) in (0, -signal.SIGTERM), (tmp_path / "log").read_text()
            finally:
                process.kill()
            if locked:
                rows.execute("ROLLBACK")

    run(locked=True)
    with DelayedQueue.open(f"sqlite:///{tmp_path}/letters.db", "visits") as letters:
        assert letters.reschedule(prefix="") > 0  # else they are due after a minute
    run(locked=False)


def accepted_by(targets: Path) -> float:
    """Return the number of items that all worker processes accepted, from the endpoint of each process."""
    found = [file.read_text().partition("127.0.0.1:")[2].partition('"')[0] for file in targets.iterdir()]
    counted = [samples(f"http://127.0.0.1:{port}/metrics") for port in found]
    return sum(value for each in counted for (name, _), value in each.items() if name == "drainq_batch_accepted_total")


def test_the_reminder_service_sends_until_sigterm(tmp_path):
    (tmp_path / "reminders.py").write_text(block("tutorials/reminders.md", "# reminders.py"))
    start = "import reminders, datetime as d; q = reminders.open_queue(reminders.URL); now = d.datetime.now(d.timezone.utc);"
    offer = "reminders.remind(q, 'ann@example.org', 'tea', now); q.close();"
    arguments = [sys.executable, "-u", "-c", f"{start} {offer} reminders.main()"]
    with subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "to ann@example.org: tea\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 143
        finally:
            process.kill()
