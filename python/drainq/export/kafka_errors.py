"""Classifies the errors of Kafka messages.

librdkafka reports an error after it has tried again for ``delivery.timeout.ms``. So waiting does not help here, and
only the reason matters.

| group | meaning |
| --- | --- |
| refused | the message is too large, or not a record of the topic; several may be too large only together |
| cannot pass | every message fails: no right, no such topic, wrong password |
| never sent | removed from the local queue at ``close`` |
| unknown | every other: the message may be in the topic; also ``_MSG_TIMED_OUT``, even if nothing was ever sent |

Source: ``rd_kafka_resp_err_t`` in librdkafka; a frozen broker that reports a time-out and keeps the message.
"""

from __future__ import annotations

import re
from typing import Any

from drainq.delivery import Undelivered

REFUSED = frozenset(
    {
        "MSG_SIZE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_MSG",
        "INVALID_TIMESTAMP",
        "POLICY_VIOLATION",
        "_INVALID_ARG",
        "_BAD_MSG",
    }
)
CANNOT_PASS = frozenset(
    {
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
        "_AUTHENTICATION",
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
        "UNSUPPORTED_VERSION",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "_UNSUPPORTED_FEATURE",
    }
)

TOO_LARGE = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_CERTIFICATE = re.compile("certificate verify failed|wrong version number", re.IGNORECASE)


def name(error: Any) -> str:
    """Return the error's name, such as ``MSG_SIZE_TOO_LARGE``."""
    return str(error.name())


def passes_never(error: Any) -> bool:
    """Return whether every message fails until a person changes something."""
    return name(error) in CANNOT_PASS


def connects_never(error: Any) -> bool:
    """Return whether a broker refuses the login, or has a certificate that the configured authorities have not signed.

    A connection that merely ends proves nothing: a proxy without a broker behind it ends connections too.
    """
    return name(error) == "_AUTHENTICATION" or (name(error) == "_SSL" and bool(_CERTIFICATE.search(error.str())))


def is_fatal(error: Any) -> bool:
    """Return whether a producer accepts no message any more, after an earlier error of its idempotence."""
    return error is not None and name(error) == "_FATAL"


def reason(error: Any) -> object:
    """Return why a message was not delivered: a text if it was refused, or an :class:`~drainq.delivery.Undelivered`."""
    text = f"{name(error)}: {error.str()}"
    if name(error) in REFUSED:
        return text
    return Undelivered(text, unknown=name(error) not in CANNOT_PASS and name(error) != "_PURGE_QUEUE")
