"""The URLs of PostgreSQL: user, password, hosts, database and parameters; passwords are kept apart.

``url.py`` says what holds for all URLs, and hides passwords in texts.
"""

from __future__ import annotations

import re
from urllib.parse import quote as percent_encoded

from drainq.sql.dialect import UrlParts
from drainq.sql.url import SECRET, decoded


def read_postgres_url(rest: str) -> UrlParts:
    """Read what follows ``postgresql://``.

    Raises:
        ValueError: it can be read in more than one way, or has a port that no server can have.
    """
    user_part, _, place = rest.rpartition("@")
    if rest.count("@") > 1 or re.search("[/?]", user_part):
        raise ValueError(
            "this URL can be read in more than one way: write '/', '?' and '@' in a user's name, a password or a "
            "parameter as %2F, %3F and %40"
        )
    user, _, password = user_part.partition(":")
    secrets = {"password": decoded(password)} if password else {}
    host_and_database, _, query = place.partition("?")
    _check_ports(host_and_database.partition("/")[0])
    kept, shown = [], []
    for name, value in _parameters(query):
        if SECRET.fullmatch(name):
            secrets[name.lower()] = decoded(value)
            shown.append(f"{name}=***")
        else:
            kept.append(f"{name}={value}")
            shown.append(f"{name}={value}")
    who = percent_encoded(decoded(user), safe="")
    at, hidden = "@" if user_part else "", ":***" if password else ""
    target = f"postgresql://{who}{at}{host_and_database}{'?' if kept else ''}{'&'.join(kept)}"
    text = f"postgresql://{who}{hidden}{at}{host_and_database}{'?' if shown else ''}{'&'.join(shown)}"
    return UrlParts(target, tuple(secrets.items()), text)


def _check_ports(hosts: str) -> None:
    """Refuse a port that no server can have: libpq notices it only when it connects, as if the server were away."""
    for host in hosts.split(","):
        port = re.fullmatch(r"[^:]*:(.+)", re.sub(r"^\[[^\]]*\]", "", host))
        if port and not (re.fullmatch(r"[0-9]{1,5}", port[1]) and 1 <= int(port[1]) <= 65535):
            raise ValueError(f"the port of a PostgreSQL server is a number from 1 to 65535, got {port[1]!r}")


def _parameters(query: str) -> list[tuple[str, str]]:
    """Return the parameters of a query, names decoded.

    Raises:
        ValueError: a part has no ``=``.
    """
    parts = [part.partition("=") for part in query.split("&")] if query else []
    if not all(equals for _, equals, _ in parts):
        raise ValueError("a parameter of this URL has no value: write '&' in a value as %26")
    return [(decoded(name), value) for name, _, value in parts]
