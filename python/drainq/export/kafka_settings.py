"""Completes the configuration of librdkafka with drainq's defaults, and opens a producer with it."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

LEAST_PATIENCE = 1.0  # seconds of delivery.timeout.ms, also for retry_for=0: a first try takes some time


def settings_of(config: Mapping[str, Any], patience: float) -> dict[str, Any]:
    """Return the configuration with drainq's defaults."""
    settings: dict[str, Any] = dict(config)
    if not {"delivery.timeout.ms", "message.timeout.ms"} & settings.keys():
        settings["delivery.timeout.ms"] = int(1000 * max(LEAST_PATIENCE, patience))
    if not {"enable.idempotence", "acks", "request.required.acks"} & settings.keys():
        settings["enable.idempotence"] = True
    settings["delivery.report.only.error"] = True  # a report for each message costs more than the message
    settings.setdefault("logger", logging.getLogger("drainq.kafka"))
    return settings


_SECRET = re.compile("password|secret|key|token|jaas|oauthbearer.config|pem|credential", re.IGNORECASE)


def opened(kafka: Any, settings: Mapping[str, Any]) -> Any:
    """Return a new producer.

    Raises:
        ValueError: librdkafka refuses the configuration. The message is its text, without secrets.
    """
    try:
        return kafka.Producer(dict(settings))
    except (kafka.KafkaException, ValueError, TypeError) as error:
        text = error.args[0].str() if isinstance(error, kafka.KafkaException) else str(error)
    for name, value in settings.items():
        if _SECRET.search(str(name)) and not isinstance(value, bool) and str(value):
            text = text.replace(str(value), "...")
    raise ValueError(f"config is not what librdkafka takes: {text}")  # not chained to librdkafka's error
