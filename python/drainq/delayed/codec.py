"""Codecs: convert payloads to bytes and back.

A codec is any object with ``type_name``, ``encode`` and ``decode``. The type name is part of a queue's identity: the
same name with another codec is another queue. So no consumer reads bytes that it cannot decode.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

import msgspec

from drainq.delayed.message import check_unicode
from drainq.errors import UnfitItem

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    PayloadT = TypeVar("PayloadT", default=Any)  # a codec without a payload type accepts any payload
else:
    from typing import TypeVar

    PayloadT = TypeVar("PayloadT")


class Codec(Protocol[PayloadT]):
    """The interface of a codec, which converts payloads to bytes and back."""

    @property
    def type_name(self) -> str:
        """The name of the encoding. Queues whose codecs have different type names do not see each other's messages."""
        ...

    def encode(self, payload: PayloadT) -> bytes:
        """Return the payload as bytes. Raise TypeError or ValueError if it cannot be encoded."""
        ...

    def decode(self, data: bytes) -> PayloadT:
        """Return the payload. Raise ValueError if the bytes cannot be decoded."""
        ...


_PLAIN = {str, int, float, bool, type(None), list, dict}
"""The types that JSON has."""


class MsgspecCodec(Generic[PayloadT]):
    """JSON by msgspec: str, numbers, bools, None, lists and dicts with str keys are decoded as they were encoded.

    Without ``type`` and ``name`` a set is refused as a payload. Inside a payload, a set or a tuple becomes a list.

    Args:
        type: the type to decode to, such as a :class:`msgspec.Struct`; by default the types of JSON.
        name: the type's name in the identity of the queue; by default that of the class. With a name of your own, or
            the former one, a renamed class finds its stored messages.

    Example:
        >>> codec = MsgspecCodec()
        >>> codec.decode(codec.encode({"to": "ann", "tries": [1, 2.5, None]}))
        {'to': 'ann', 'tries': [1, 2.5, None]}
    """

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, type: type[PayloadT], *, name: str | None = None) -> None: ...

    @overload
    def __init__(self: MsgspecCodec[Any], type: Any, *, name: str | None = None) -> None: ...

    def __init__(self, type: Any = Any, *, name: str | None = None) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(type)
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise ValueError(f"name must be a text that is not blank, or None, got {name!r}")
        name = name or (None if type is Any else getattr(type, "__qualname__", str(type)))
        self.type_name = "json" if name is None else f"json:{name}"

    def encode(self, payload: PayloadT) -> bytes:
        """Encode the payload as JSON."""
        if isinstance(payload, (bytes, bytearray, memoryview)):
            raise UnfitItem(
                f"payload must be what JSON has: {type(payload).__name__} would come back as a str from JSON; "
                "open the queue with BytesCodec()"
            )
        if isinstance(payload, (set, frozenset)) and self.type_name == "json":
            raise UnfitItem(
                f"payload must not be a {type(payload).__name__}, which would come back as a list from JSON: "
                "give list(payload), or open the queue with MsgspecCodec(set)"
            )
        try:
            return self._encoder.encode(payload)
        except TypeError as error:
            raise UnfitItem(
                f"payload must be made of what JSON has, dataclasses or msgspec.Structs, got a "
                f"{type(payload).__name__} ({error}); for other objects open the queue with a codec="
            ) from None

    def encode_many(self, payloads: Sequence[Any]) -> list[bytes]:
        """Encode each payload of a batch as JSON. This method is optional for a codec."""
        if set(map(type, payloads)) <= _PLAIN and type(self).encode is MsgspecCodec.encode:
            return list(map(self._encoder.encode, payloads))
        return [self.encode(payload) for payload in payloads]

    def decode(self, data: bytes) -> PayloadT:
        """Decode the payload from JSON."""
        payload: PayloadT = self._decoder.decode(data)
        return payload


class JsonCodec:
    """JSON with the standard library's ``json``, which keeps NaN, infinity and integers of any size.

    Example:
        >>> JsonCodec().decode(JsonCodec().encode([float("inf"), 2**100]))
        [inf, 1267650600228229401496703205376]
    """

    type_name = "json-stdlib"

    def encode(self, payload: Any) -> bytes:
        """Encode the payload as JSON."""
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode("utf-8")

    def decode(self, data: bytes) -> Any:
        """Decode the payload from JSON."""
        return json.loads(data)


class BytesCodec:
    """Bytes, unchanged.

    Example:
        >>> BytesCodec().decode(BytesCodec().encode(b"abc"))
        b'abc'
    """

    type_name = "bytes"

    def encode(self, payload: bytes | bytearray | memoryview) -> bytes:
        """Return the payload as bytes."""
        if not isinstance(payload, (bytes, bytearray, memoryview)):
            raise UnfitItem(f"BytesCodec encodes bytes, got a {type(payload).__name__}")
        return bytes(payload)

    def decode(self, data: bytes) -> bytes:
        """Return the bytes unchanged."""
        return data


class StrCodec:
    """Text as UTF-8. The source library's string queues have the same type name, so both can share a table.

    Example:
        >>> StrCodec().encode("h\u00e9")
        b'h\\xc3\\xa9'

    Source: ``MessageSerializer.forStrings`` of funfix ``delayedqueue``.
    """

    type_name = "java.lang.String"

    def encode(self, payload: str) -> bytes:
        """Encode the text as UTF-8."""
        if not isinstance(payload, str):
            raise UnfitItem(f"StrCodec encodes str, got a {type(payload).__name__}")
        check_unicode(payload, "payload")
        return payload.encode("utf-8")

    def decode(self, data: bytes) -> str:
        """Decode the text from UTF-8."""
        return data.decode("utf-8")


class PickleCodec:
    """Any Python object, by pickle: **only for a table that no other program can write**.

    Decoding a pickle runs any code in its bytes, so a program that can write one row into the table can run code in
    every consumer. Therefore this codec is never a default, and ``drainq.delayed`` does not export it.

    Args:
        i_trust_every_writer_of_the_table: must be ``True``, written out.
    """

    type_name = "python.pickle"

    def __init__(self, *, i_trust_every_writer_of_the_table: bool) -> None:
        if i_trust_every_writer_of_the_table is not True:
            raise ValueError(
                "PickleCodec runs code found in the table: pass i_trust_every_writer_of_the_table=True,"
                " or take another codec"
            )

    def encode(self, payload: Any) -> bytes:
        """Encode the payload as a pickle."""
        import pickle

        return pickle.dumps(payload)

    def decode(self, data: bytes) -> Any:
        """Decode the payload from a pickle, which runs the pickle's code."""
        import pickle

        return pickle.loads(data)
