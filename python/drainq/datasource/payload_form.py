"""Payload form: converts payloads between a DataFrame's column and the bytes that the queue stores.

| form | column | codec of the queue in Python | payload of a message in Python |
| --- | --- | --- | --- |
| ``text`` | STRING, as it is | the default codec | a ``str``, or None |
| ``json`` | STRING, a JSON document | the default codec | the document's value |
| ``binary`` | BINARY | ``BytesCodec()`` | ``bytes`` |
| ``utf8`` | STRING, as it is | ``StrCodec()`` | a ``str`` |

1. A payload that cannot be encoded or decoded is an error, which shows neither payload nor key.
2. The queue itself is opened with :class:`Stored`, which decodes nothing, so a message that does not fit the form does
   not become a dead letter.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import msgspec

from drainq.sql.error_text import error_text


class PayloadForm(enum.Enum):
    """The type of a payload, in a column and in the queue."""

    TEXT = "text"
    JSON = "json"
    BINARY = "binary"
    UTF8 = "utf8"

    @property
    def column_type(self) -> str:
        """The column's type in Spark's notation."""
        return "binary" if self is PayloadForm.BINARY else "string"

    @property
    def codec(self) -> Stored:
        """The codec for opening a queue whose payloads have this form."""
        return Stored({"text": "json", "json": "json", "binary": "bytes", "utf8": "java.lang.String"}[self.value])

    def encode(self, value: Any) -> bytes:
        """Convert a value of the column to the bytes that the queue stores.

        Raises:
            ValueError: the value cannot be encoded.
        """
        if value is None and self is not PayloadForm.TEXT:
            raise ValueError(f"a payload is NULL, which payload={self.value} cannot say")
        if self is PayloadForm.TEXT:
            return msgspec.json.encode(value)
        if self is PayloadForm.JSON:
            try:
                return msgspec.json.encode(msgspec.Raw(_checked(value)))
            except msgspec.DecodeError as wrong:
                raise ValueError(
                    f"a payload is no JSON document ({error_text(wrong)}): write one, or leave out payload=json"
                ) from None
        return bytes(value) if self is PayloadForm.BINARY else str(value).encode()

    def decode(self, stored: bytes) -> Any:
        """Convert the bytes that the queue stores to a value of the column.

        Raises:
            ValueError: the bytes cannot be decoded.

        Example:
            >>> PayloadForm.TEXT.decode(b'"Hello"'), PayloadForm.JSON.decode(b'"Hello"')
            ('Hello', '"Hello"')
        """
        if self is PayloadForm.BINARY:
            return bytes(stored)
        try:
            if self is not PayloadForm.TEXT:
                return bytes(stored).decode()
            value = msgspec.json.decode(stored)
        except ValueError as wrong:
            raise ValueError(f"a payload cannot be read as {self.value}: {error_text(wrong)}") from None
        if value is None or isinstance(value, str):
            return value
        raise ValueError(f"a payload is a {type(value).__name__}, not a text: read with .option('payload', 'json')")


@dataclass(frozen=True)
class Stored:
    """A codec that does not convert payloads.

    Args:
        type_name: the type name of the queue's real codec.
    """

    type_name: str

    def encode(self, payload: Any) -> bytes:
        """Return the bytes unchanged."""
        return bytes(payload)

    def decode(self, data: bytes) -> bytes:
        """Return the bytes unchanged."""
        return data


def _checked(text: str) -> bytes:
    document = text.encode()
    msgspec.json.decode(document)
    return document
