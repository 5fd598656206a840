"""The messages between a remote client and a remote server, as bytes.

The one gRPC method streams in both directions: batches go one way, and an acknowledgement of each comes back. Messages
are MessagePack and not protobuf, because items may be any type that msgspec encodes, and a schema could only declare
them as bytes.

# Invariants

1. ``(sender, number)`` identifies a batch for ever: the sender is one client object in one process and uses each number
   once. A batch that is sent again keeps its number.
2. The sender repeats no batch with a number below ``settled``, so the server may forget those batches.
3. An acknowledgement accounts for each item of its batch: refused ones by place, all others are handled.

Source: ``RemoteService.proto`` in SkyWalking, which has no identity of batches, and one empty answer for each stream.
"""

from __future__ import annotations

import msgspec

METHOD = "/drainq.Remote/Deliver"
LARGEST = 4 * 1024 * 1024  # bytes of a message that a gRPC server takes if it was not configured otherwise
OVERHEAD = 256  # the most bytes of a batch besides its items


class WireBatch(msgspec.Struct, frozen=True, array_like=True):
    """Items on their way to a server, each encoded separately."""

    sender: str
    number: int
    settled: int
    items: list[msgspec.Raw]


class Ack(msgspec.Struct, frozen=True, array_like=True):
    """The result of a batch: the indexes of its refused items, and the reasons. All others were handled.

    An index is None if the server knows only how many items were refused.
    """

    number: int
    refused: list[tuple[int | None, str]] = []


encode = msgspec.msgpack.Encoder().encode
decode_batch = msgspec.msgpack.Decoder(WireBatch).decode
decode_ack = msgspec.msgpack.Decoder(Ack).decode
