"""Requests to the endpoint for its tests, on plain sockets and with the parsers of prometheus_client."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from urllib.request import Request, urlopen

from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
PATIENCE = 30  # seconds after which a test gives an answer up

__all__ = ["OPENMETRICS", "PATIENCE", "Samples", "exchange", "own_sockets", "sample", "samples", "scrape"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(url: str, accept: str = "*/*") -> tuple[str, str]:
    """Return the content type and the text."""
    with urlopen(Request(url, headers={"Accept": accept}), timeout=PATIENCE) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def samples(url: str, accept: str = "*/*") -> Samples:
    """Return the samples by name and labels; each is there once."""
    content_type, text = scrape(url, accept)
    is_open = content_type.startswith("application/openmetrics-text")
    parse = openmetrics_parser.text_string_to_metric_families if is_open else text_string_to_metric_families
    found: Samples = {}
    for family in parse(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def sample(found: Samples, name: str, **labels: str) -> float:
    """Return the value of one sample."""
    return found[name, frozenset(labels.items())]


def exchange(port: int, request: bytes) -> bytes:
    """Send bytes, and read to the end."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
        client.sendall(request)
        answer = b""
        while chunk := client.recv(65536):
            answer += chunk
    return answer


def own_sockets() -> Iterator[socket.socket]:
    """Yield the sockets of this process, the endpoint's among them; each is open until the next one."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            copy = os.dup(number)
        except OSError:
            continue  # that of the directory itself
        try:
            found = socket.socket(fileno=copy)
        except OSError:
            os.close(copy)
            continue
        with found:
            yield found
