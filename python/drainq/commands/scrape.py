"""Scrape: reads samples from the metrics endpoints of running programs, in Prometheus's text format over HTTP.

It reads only the part of the format that :class:`drainq.monitoring.MetricsServer` writes: one sample a line, labels
with escapes, no timestamps.

Source: "Exposition formats" of the Prometheus documentation.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from drainq.errors import DrainqError

DEFAULT_URL = "http://127.0.0.1:9464/metrics"
PATIENCE = 5.0
"""Seconds after which an endpoint that does not answer is given up."""

_PAIR = r'([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"'
_LABELS = r'(?:[a-zA-Z_]\w*="(?:\\.|[^"\\])*",?)*'
_SAMPLE = re.compile(rf"(?P<name>[a-zA-Z_:][\w:]*)(?:\{{(?P<labels>{_LABELS})\}})? (?P<value>\S+)")
_LABEL = re.compile(_PAIR)
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}
_SPACE = 64 << 20  # bytes of the largest answer that is read


@dataclass
class Scrape:
    """The answer of one process.

    Args:
        url: the endpoint.
        at: the time of the answer, in seconds of a steady clock.
        samples: the values by name, each with its labels.
        error: the reason if there are no samples, else None.
    """

    url: str
    at: float
    samples: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)
    error: str | None = None

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of a name that have these labels; 0 if there is none."""
        wanted = labels.items()
        return sum(value for found, value in self.samples.get(name, ()) if wanted <= found.items())

    def labels(self, name: str, label: str, **having: str) -> list[str]:
        """Return the values of ``label`` in the samples of ``name`` that have the labels ``having``, each value once,
        in the order of the samples."""
        wanted = having.items()
        found = (own for own, _ in self.samples.get(name, ()) if label in own and wanted <= own.items())
        return list(dict.fromkeys(own[label] for own in found))


def endpoint_url(text: str) -> str:
    """Return the URL of an endpoint for a user's input: a port, ``host:port`` or a URL.

    Raises:
        DrainqError: the input is none of these.

    Example:
        >>> endpoint_url("9464"), endpoint_url("db1:9464"), endpoint_url("http://db1:9464/metrics")
        ('http://127.0.0.1:9464/metrics', 'http://db1:9464/metrics', 'http://db1:9464/metrics')
    """
    place = f"http://127.0.0.1:{text}" if text.isdigit() else text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(place)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 80) > 0
    except ValueError:
        usable = False
    if not usable:
        raise DrainqError(f"an endpoint is a port, host:port or http://host:port/metrics, got {text!r}")
    return place if parts.path not in ("", "/") else f"{place.rstrip('/')}/metrics"


def scrape(url: str) -> Scrape:
    """Read an endpoint. If it does not answer, the scrape has an ``error``."""
    opener = build_opener(ProxyHandler({}))  # never through a proxy
    try:
        with opener.open(url, timeout=PATIENCE) as answer:
            text = answer.read(_SPACE).decode()
        samples = parse(text)
    except (OSError, ValueError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        return Scrape(url, time.monotonic(), error=" ".join(str(reason).split()) or type(error).__name__)
    if "drainq_build_info" not in samples:
        return Scrape(url, time.monotonic(), error="answers, but not with drainq's metrics")
    return Scrape(url, time.monotonic(), samples)


def parse(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    r"""Read samples from text.

    Raises:
        ValueError: a line is no sample.

    Example:
        >>> parse('# HELP a it\na{queue="x \\"y\\""} 2\n')
        {'a': [({'queue': 'x "y"'}, 2.0)]}
    """
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        found = _SAMPLE.fullmatch(line)
        if found is None:
            raise ValueError(f"answers with a line that is no sample: {line[:80]!r}")
        labels = {
            name: re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0]), value)
            for name, value in _LABEL.findall(found["labels"] or "")
        }
        samples.setdefault(found["name"], []).append((labels, float(found["value"])))
    return samples
