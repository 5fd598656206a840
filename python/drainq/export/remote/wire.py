"""What a remote client and a remote server say to each other, as bytes.

One gRPC method, a stream in both directions: batches go one way, an acknowledgement of each comes back. The messages
are MessagePack and not protobuf: items are whatever msgspec encodes, so a schema could only call them bytes.

# Invariants

1. ``(sender, number)`` identifies a batch for ever: the sender is one client object in one process, and it gives each
   number once. A batch that is sent again has the number that it had.
2. ``settled`` is a number below which the sender sends nothing again: the server may forget what became of it.
3. An acknowledgement accounts for each item of its batch: refused ones by place, all others are handled.

Source: ``RemoteService.proto`` in SkyWalking, which has no identity and one empty answer a stream; both are ours.
"""

from __future__ import annotations

from typing import Any

import msgspec

METHOD = "/drainq.Remote/Deliver"
LARGEST = 4 * 1024 * 1024  # bytes of a message that a gRPC server takes if it was not configured otherwise
OVERHEAD = 256  # bytes of a batch beside its items, and then some


class WireBatch(msgspec.Struct, frozen=True, array_like=True):
    """Items on their way to a server, each encoded by itself."""

    sender: str
    number: int
    settled: int
    items: list[msgspec.Raw]


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """What became of a batch: the places of its items that were refused, and why; all others were handled.

    A place is None where the server knows how many were refused, and not which.
    """

    number: int
    refused: list[tuple[int | None, str]] = []


encode_item = msgspec.msgpack.Encoder().encode
_encode = msgspec.msgpack.Encoder().encode
_batch = msgspec.msgpack.Decoder(WireBatch)
_ack = msgspec.msgpack.Decoder(Ack)


def encode(message: WireBatch | Ack) -> bytes:
    """The bytes of a message."""
    return _encode(message)


def decode_batch(data: bytes) -> WireBatch:
    """The batch in the bytes.

    Raises:
        msgspec.DecodeError: there is none.
    """
    return _batch.decode(data)


def decode_ack(data: bytes) -> Ack:
    """The acknowledgement in the bytes.

    Raises:
        msgspec.DecodeError: there is none.
    """
    return _ack.decode(data)


def item_decoder(of: Any) -> msgspec.msgpack.Decoder[Any]:
    """What turns the bytes of an item into one of a type; ``Any``: into dicts, lists, text, numbers and bytes."""
    return msgspec.msgpack.Decoder(of)
