"""PostgreSQL's driver, or an error that names the extra to install."""

from __future__ import annotations

try:
    import psycopg
    import psycopg_pool
except ImportError as missing:
    raise ImportError(
        f"a delayed queue in PostgreSQL needs psycopg: pip install 'drainq[postgres]' ({missing})"
    ) from missing

__all__ = ["psycopg", "psycopg_pool"]
