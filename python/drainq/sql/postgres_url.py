"""The URLs of PostgreSQL: user, password, hosts, database and parameters; passwords are kept apart.

``url.py`` says what holds for all URLs, and hides passwords in texts.
"""

from __future__ import annotations

import re
from urllib.parse import quote as percent_encoded

from drainq.sql.dialect import UrlParts
from drainq.sql.url import SECRET, decoded, without_password

_HOSTS = re.compile(r"(?:\[[^\]/?@]*\]|[^:\[\]/?@#,\s]*)(?::\d+)?(?:,(?:\[[^\]/?@]*\]|[^:\[\]/?@#,\s]*)(?::\d+)?)*")


def read_postgres_url(rest: str) -> UrlParts:
    """Read what follows ``postgresql://``.

    Raises:
        ValueError: it can be read in more than one way, or has a port that no server can have.
    """
    user_part, place = _split_user_part(rest)
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


def _split_user_part(rest: str) -> tuple[str, str]:
    """Split ``user:password@host/db?query`` before the host, whatever the password holds.

    An ``@`` ends the user part if what follows it is a host. If several do, the first is meant as long as the others
    stand in the query.

    Raises:
        ValueError: there is more than one way to read it.
    """
    ends = [at for at, char in enumerate(rest) if char == "@"]
    if not ends:
        return "", rest
    readings = [at for at in [-1, *ends] if _HOSTS.fullmatch(re.split(r"[/?]", rest[at + 1 :], maxsplit=1)[0])]
    if not readings:
        return rest[: ends[-1]], rest[ends[-1] + 1 :]  # the host is none: the driver says so
    first = readings[0]
    place, question, query = rest[first + 1 :].partition("?")
    if len(readings) > 1 and not (question and "@" not in place and re.match(r"\w+=", query)):
        raise ValueError(
            f"this URL can be read in more than one way: {without_password('postgresql://' + rest)!r}; "
            "write the characters '/', '?' and '@' in a user's name or password as %2F, %3F and %40"
        )
    return (rest[:first], rest[first + 1 :]) if first >= 0 else ("", rest)


def _check_ports(hosts: str) -> None:
    """Refuse a port that no server can have: libpq notices it only when it connects, as if the server were away."""
    for host in hosts.split(","):
        port = re.fullmatch(r"[^:]*:(.+)", re.sub(r"^\[[^\]]*\]", "", host))
        if port and not (re.fullmatch(r"[0-9]{1,5}", port[1]) and 1 <= int(port[1]) <= 65535):
            raise ValueError(f"the port of a PostgreSQL server is a number from 1 to 65535, got {port[1]!r}")


def _parameters(query: str) -> list[tuple[str, str]]:
    """The parameters of a query, names decoded; a part without ``=`` belongs to the value before it."""
    found: list[tuple[str, str]] = []
    for part in query.split("&") if query else []:
        name, equals, value = part.partition("=")
        if equals or not found:
            found.append((decoded(name), value))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]}&{part}")
    return found
