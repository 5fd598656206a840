"""Earn an access log: a real HTTP server on loopback, and clients that send it real requests.

    python examples/access_log.py drainq-out/access.log [--requests 6000] [--clients 8]

The server speaks HTTP/1.1 with kept-alive connections and writes one line a request, in the
Combined Log Format with the request's own time in seconds as a last field. The clients ask for
a few endpoints most of the time and for many now and then; some endpoints are slow, some
pages do not exist, one endpoint fails now and then, and a few clients speak TLS to the plain port.

Every request is accounted for: the run fails unless the log has one line for each request that was sent.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TextIO
from urllib.parse import urlsplit

AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64)",
    "Mozilla/5.0 (iPhone)",
    "curl/8.10.1",
    "Googlebot/2.1",
    "python-requests/2.32",
]
REFERRERS = [
    "-",
    "-",
    "https://example.org/",
    "https://example.org/search?q=queue",
    "https://news.example.com/item?id=7",
]
TLS_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"
TLS_CLIENTS = 3
LONGEST_REQUEST = 30.0  # seconds before a client gives up


class AccessLog:
    """A log with one line for each request, in the order in which the requests ended. Any thread may write."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()
        self.statuses: Counter[int] = Counter()

    def write(
        self, *, client: str, request: str, status: int, size: int, referrer: str, agent: str, seconds: float
    ) -> None:
        """Append one request; ``size`` is in bytes, control characters become ``\\xhh`` as in Apache's logs."""
        now = datetime.now(timezone.utc).strftime("%d/%b/%Y:%H:%M:%S %z")
        request, referrer, agent = (_escape(text) for text in (request, referrer, agent))
        line = f'{client} - - [{now}] "{request}" {status} {size or "-"} "{referrer}" "{agent}" {seconds:.6f}\n'
        with self._lock:
            self._file.write(line)
            self.statuses[status] += 1


def _escape(text: str) -> str:
    return "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\x{ord(c):02x}" for c in text)


class Shop(BaseHTTPRequestHandler):
    """The pages of a small shop. The requested path decides how long an answer takes, and its status."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet an answer
    server: ShopServer

    def parse_request(self) -> bool:
        self._started = time.perf_counter()
        return super().parse_request()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        number = self.server.count(path)
        if path == "/":
            self._answer(200, b"<h1>shop</h1>" * 40)
        elif path.startswith("/products/"):
            self._answer(200, json.dumps({"product": path.rpartition("/")[2], "stock": number % 90}).encode() * 8)
        elif path == "/search":
            time.sleep(0.002 + number % 7 * 0.001)  # the wait for an index
            self._answer(200, b"result\n" * (number % 60))
        elif path == "/reports/daily":
            time.sleep(0.030 + number % 5 * 0.010)  # the wait for a database
            self._answer(200, b"day,orders,revenue\n" * 300)
        elif path == "/cart":
            self._answer(500 if number % 11 == 0 else 200, b"cart")
        else:
            self._answer(404, b"not found")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response_only(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self._log(status, len(body))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is not HTTP, and log it like everything else."""
        self.close_connection = True
        self.send_response_only(code)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self._log(int(code), 0)

    def _log(self, status: int, size: int) -> None:
        headers = getattr(self, "headers", None) or {}
        self.server.log.write(
            client=self.client_address[0], request=self.raw_requestline.decode("latin-1").strip(),
            status=status, size=size, referrer=headers.get("Referer", "-"), agent=headers.get("User-Agent", "-"),
            seconds=time.perf_counter() - self._started,
        )  # fmt: skip


class ShopServer(ThreadingHTTPServer):
    """A server with a thread for each connection. Its close waits for the threads, so that no log line is missing."""

    daemon_threads = False
    request_queue_size = 128

    def __init__(self, log: AccessLog) -> None:
        super().__init__(("127.0.0.1", 0), Shop)
        self.log = log
        self._served: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, path: str) -> int:
        """Return this request's number among those of its path, from 1. It decides if the request is slow or fails."""
        with self._lock:
            self._served[path] += 1
            return self._served[path]


@contextmanager
def serving(log: AccessLog) -> Iterator[int]:
    """Run the server in the background and yield its port. At the end of the block every answer is in the log."""
    with ShopServer(log) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="shop")
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def targets(rng: random.Random, count: int) -> list[str]:
    """Draw ``count`` skewed requests: the home page and the products take most; the products have a long tail."""
    products = [f"/products/{n}" for n in range(40)]
    popularity = [1 / rank for rank in range(1, len(products) + 1)]
    kinds = rng.choices(["home", "product", "search", "cart", "missing", "report"], [30, 40, 12, 10, 6, 2], k=count)
    made = {
        "home": lambda: "/",
        "product": lambda: rng.choices(products, popularity)[0],
        "search": lambda: f"/search?q={rng.choice(['queue', 'spark', 'batch'])}&page={rng.randrange(5)}",
        "cart": lambda: "/cart",
        "missing": lambda: rng.choice(["/favicon.ico", "/wp-login.php", "/.env"]),
        "report": lambda: "/reports/daily",
    }
    return [made[kind]() for kind in kinds]


def visit(port: int, client: int, count: int, seed: int) -> int:
    """Send ``count`` requests over one kept-alive connection; return how many were answered."""
    rng = random.Random(seed * 1000 + client)
    # All of 127.0.0.0/8 is this machine on Linux: each client gets an address of its own.
    source = (f"127.0.0.{2 + client}", 0) if sys.platform == "linux" else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_REQUEST, source_address=source)
    headers = {"User-Agent": AGENTS[client % len(AGENTS)]}
    answered = 0
    for target in targets(rng, count):
        connection.request("GET", target, headers={**headers, "Referer": rng.choice(REFERRERS)})
        connection.getresponse().read()
        answered += 1
    connection.close()
    return answered


def speak_tls(port: int) -> int:
    """Send a TLS client's greeting to the plain port. Return 1 after the server has closed the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_REQUEST) as connection:
        connection.sendall(TLS_HELLO)
        while connection.recv(4096):
            pass
    return 1


def earn(path: Path, *, requests: int = 6000, clients: int = 8, seed: int = 1) -> Counter[int]:
    """Write a log of ``requests`` real requests to ``path``.

    Returns:
        How many requests ended with which status.
    Raises:
        RuntimeError: the log does not have one line for each request that was sent.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    shares = [requests // clients + (n < requests % clients) for n in range(clients)]
    with path.open("w", encoding="ascii") as file, ThreadPoolExecutor(clients) as pool:
        log = AccessLog(file)
        with serving(log) as port:
            runs = [pool.submit(visit, port, client, share, seed) for client, share in enumerate(shares)]
            runs += [pool.submit(speak_tls, port) for _ in range(TLS_CLIENTS)]
            answered = sum(run.result() for run in runs)
    logged = sum(log.statuses.values())
    if not answered == logged == requests + TLS_CLIENTS:
        raise RuntimeError(f"sent {requests + TLS_CLIENTS} requests, {answered} were answered, {logged} logged")
    return log.statuses


def at_least_one(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description="Earn an access log from real requests to a real server on loopback.")
    parser.add_argument("log", type=Path, help="the file to write")
    parser.add_argument("--requests", type=at_least_one, default=6000)
    parser.add_argument("--clients", type=at_least_one, default=8, help="kept-alive connections at a time")
    asked = parser.parse_args()
    started = time.perf_counter()
    statuses = earn(asked.log, requests=asked.requests, clients=asked.clients)
    seconds = time.perf_counter() - started
    shares = ", ".join(f"{count:,} x {status}" for status, count in sorted(statuses.items()))
    print(f"{asked.log}: {sum(statuses.values()):,} real requests in {seconds:.1f} s, every one logged: {shares}")


if __name__ == "__main__":
    main()
