"""Asks servers for their protocol if no message arrives, because librdkafka sees only connections that end.

1. Only an answer is proof. A refused, silent or ended connection proves nothing: a proxy without its broker does the
   same.
2. The first request is a valid one for a broker, so a broker that is only slow logs no error.
"""

from __future__ import annotations

import socket
import ssl
import struct
from urllib.parse import urlsplit

PATIENCE = 1.0  # seconds for each connection
_NUMBER = b"drnq"  # a broker repeats it
_API_VERSIONS = struct.pack(">hh4sh6s", 18, 0, _NUMBER, 6, b"drainq")


def why_never(servers: str, protocol: str) -> str:
    """Return why no server can be used with this ``security.protocol``, or an empty text if one of them may work.

    Args:
        servers: librdkafka's ``bootstrap.servers``.
        protocol: librdkafka's ``security.protocol``.
    """
    has_tls, found = protocol.lower().endswith("ssl"), ""
    for server in servers.split(","):
        spoken = spoken_at(server)
        if spoken is None or spoken == ("TLS" if has_tls else "Kafka"):
            return ""
        language = "Kafka without TLS" if spoken == "Kafka" else spoken
        remedy = f"and security.protocol is {protocol!r}; set that of the listener"
        found = f"{server.strip()} speaks {language}, {'and it is no broker' if spoken == 'HTTP' else remedy}"
    return found


def spoken_at(server: str) -> str | None:
    """Return ``"Kafka"``, ``"TLS"`` or ``"HTTP"``, or None if the server does not answer in one of them."""
    try:
        place = urlsplit(f"//{server.strip().rpartition('://')[2]}")
        host, port = place.hostname or "", place.port or 9092
        if _answer(host, port, struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)[4:8] == _NUMBER:
            return "Kafka"
        if _has_tls(host, port):
            return "TLS"
        return "HTTP" if _answer(host, port, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/") else None
    except (OSError, ValueError):
        return None


def _answer(host: str, port: int, request: bytes) -> bytes:
    """Return the first bytes of an answer, or nothing if the server ends the connection or is silent."""
    answer = b""
    with socket.create_connection((host, port), PATIENCE) as connection:
        try:
            connection.sendall(request)
            while len(answer) < 8 and (more := connection.recv(64)):
                answer += more
        except OSError:
            pass
    return answer


def _has_tls(host: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    with socket.create_connection((host, port), PATIENCE) as connection:
        try:
            context.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLError as error:
            return "ALERT" in str(error.reason)  # it asks for a certificate or another version, in TLS
        except OSError:
            return False
    return True
