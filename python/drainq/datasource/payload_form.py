"""What a payload is: in the column of a DataFrame, and as the bytes that the queue stores.

| form | column | the queue is opened in Python with | a message's payload there |
| --- | --- | --- | --- |
| ``text`` | STRING, as it is | the default codec | a ``str``, or None |
| ``json`` | STRING, a JSON document | the default codec | what the document says |
| ``binary`` | BINARY | ``BytesCodec()`` | ``bytes`` |
| ``utf8`` | STRING, as it is | ``StrCodec()`` | a ``str`` |

1. What cannot be encoded or decoded is an error, which shows neither payload nor key; nothing becomes something else.
2. The queue itself is opened with :class:`Stored`, which decodes nothing: a message that does not fit the form does not
   go to the dead letters.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

import msgspec

from drainq.sql.error_text import error_text


class PayloadForm(enum.Enum):
    """What a payload is."""

    TEXT = "text"
    JSON = "json"
    BINARY = "binary"
    UTF8 = "utf8"

    @property
    def column_type(self) -> str:
        """The column's type, as Spark writes it."""
        return "binary" if self is PayloadForm.BINARY else "string"

    @property
    def codec(self) -> Stored:
        """What the queue is opened with."""
        return Stored({"text": "json", "json": "json", "binary": "bytes", "utf8": "java.lang.String"}[self.value])

    def encode(self, value: Any) -> bytes:
        """The bytes that the queue stores for a value of the column.

        Raises:
            ValueError: there are none.
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
        """The value of the column for what the queue stores.

        Raises:
            ValueError: there is none.

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
    """A codec that leaves payloads as they are stored.

    Args:
        type_name: of the codec whose queue it is.
    """

    type_name: str

    def encode(self, payload: Any) -> bytes:
        """The bytes themselves."""
        return bytes(payload)

    def decode(self, data: bytes) -> bytes:
        """The bytes themselves."""
        return data


def _checked(text: str) -> bytes:
    document = text.encode()
    msgspec.json.decode(document)
    return document
