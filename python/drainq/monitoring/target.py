"""The endpoint of one process among several, which Prometheus finds by a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drainq._native import MetricsServer


@contextmanager
def metrics_target(folder: str | os.PathLike[str], *, host: str = "127.0.0.1") -> Iterator[MetricsServer]:
    """Serve the metrics of this process at a free port during the block, and write the port into a folder.

    The processes of a server share the server's port, so each process needs a metrics endpoint of its own. Prometheus
    finds all endpoints by its ``file_sd_configs``: the file ``<pid>.json`` in ``folder`` is there as long as the
    endpoint. The file of a killed process stays.

    Args:
        folder: made if it is missing.
        host: an address of this machine, as for :class:`MetricsServer`.

    Yields:
        The endpoint.

    Raises:
        OSError: folder or file cannot be written, or no port is free.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, metrics_target(folder) as server:
        ...     [file.name == f"{os.getpid()}.json" for file in Path(folder).iterdir()]
        [True]
    """
    with MetricsServer(port=0, host=host) as server:
        found = Path(folder, f"{os.getpid()}.json")
        found.parent.mkdir(parents=True, exist_ok=True)
        unfinished = found.with_suffix(".tmp")
        unfinished.write_text(json.dumps([{"targets": [f"{host}:{server.port}"]}]))
        unfinished.replace(found)  # Prometheus never reads half a file
        try:
            yield server
        finally:
            found.unlink(missing_ok=True)
