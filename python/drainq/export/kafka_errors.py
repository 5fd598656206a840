"""What an error of Kafka means for the message that it is about.

librdkafka has tried again by itself when it reports an error, for as long as ``delivery.timeout.ms``. So nothing here
passes by waiting; what is left is why.

| group | meaning |
| --- | --- |
| refused | the message itself: too large, not a record that the topic takes |
| cannot pass | nothing will be taken: no right, no such topic, wrong password |
| never sent | taken out of the local queue at ``close`` |
| unknown | every other: it may be in the topic; ``_MSG_TIMED_OUT`` is of this kind, also where nothing was ever sent |

Source: ``rd_kafka_resp_err_t`` in librdkafka; a frozen broker that reports a time-out and keeps the message.
"""

from __future__ import annotations

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


def name(error: Any) -> str:
    """The error's name, such as ``MSG_SIZE_TOO_LARGE``."""
    return str(error.name())


def passes_never(error: Any) -> bool:
    """Whether no message will be taken until something is put right."""
    return name(error) in CANNOT_PASS


def is_fatal(error: Any) -> bool:
    """Whether a producer takes no message any more, after an earlier error of its idempotence."""
    return error is not None and name(error) == "_FATAL"


def reason(error: Any) -> object:
    """Why a message was not delivered: text if it is refused, else an :class:`~drainq.delivery.Undelivered`."""
    text = f"{name(error)}: {error.str()}"
    if name(error) in REFUSED:
        return text
    return Undelivered(text, unknown=name(error) not in CANNOT_PASS and name(error) != "_PURGE_QUEUE")
