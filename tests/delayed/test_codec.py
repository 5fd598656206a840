"""Payloads there and back."""

from __future__ import annotations

from datetime import datetime, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.delayed import BytesCodec, CronMessage, JsonCodec, MsgspecCodec, ScheduledMessage, StrCodec
from drainq.delayed.codec import PickleCodec
from drainq.delayed.queue import partition_kind

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
)


@given(JSON)
def test_what_json_can_say_comes_back_from_both_json_codecs(payload):
    for codec in (MsgspecCodec(), JsonCodec()):
        assert codec.decode(codec.encode(payload)) == payload


@given(st.binary())
def test_bytes_come_back(payload):
    assert BytesCodec().decode(BytesCodec().encode(payload)) == payload


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_comes_back_as_utf8(payload):
    encoded = StrCodec().encode(payload)
    assert encoded == payload.encode("utf-8")
    assert StrCodec().decode(encoded) == payload


def test_typed_payloads_come_back_as_their_type():
    class Mail(msgspec.Struct):
        to: str
        tries: int = 0

    codec = MsgspecCodec(Mail)
    assert codec.decode(codec.encode(Mail("ann"))) == Mail("ann", 0)
    assert codec.type_name == f"json:{Mail.__qualname__}" != "json:Mail"
    assert MsgspecCodec(set).decode(MsgspecCodec(set).encode({1, 2})) == {1, 2}
    assert type(BytesCodec().encode(bytearray(b"x"))) is bytes


@pytest.mark.parametrize(
    ("codec", "data"),
    [(MsgspecCodec(), b"{"), (MsgspecCodec(int), b'"x"'), (JsonCodec(), b"\xff"), (StrCodec(), b"\xff")],
)
def test_bytes_that_are_none_of_it_are_a_value_error(codec, data):
    with pytest.raises(ValueError):
        codec.decode(data)


@pytest.mark.parametrize(
    ("codec", "payload"),
    [
        *((MsgspecCodec(), payload) for payload in (object(), b"x", {1}, frozenset({1}))),
        *((JsonCodec(), object()), (StrCodec(), 5), (BytesCodec(), "x")),
    ],
)
def test_what_a_codec_cannot_encode_is_a_type_error(codec, payload):
    with pytest.raises(TypeError):
        codec.encode(payload)
    if isinstance(codec, MsgspecCodec):
        with pytest.raises(TypeError):
            codec.encode_many([payload])


def test_a_batch_is_encoded_as_the_subclass_of_a_codec_encodes():
    class Upper(MsgspecCodec):
        def encode(self, payload):
            return super().encode(payload.upper())

    assert Upper().encode_many(["a", "b"]) == [b'"A"', b'"B"']


def test_a_surrogate_is_refused_by_the_name_of_its_argument():
    with pytest.raises(ValueError, match="payload must"):
        StrCodec().encode("\ud800")


def test_the_string_codec_has_the_sources_type_name():
    assert StrCodec().type_name == "java.lang.String"
    assert partition_kind("my-queue", "java.lang.String") == "7ab2b0dfa43e1a1f12169da88468fb53"


def test_type_names_differ():
    codecs = [
        MsgspecCodec(),
        MsgspecCodec(int),
        JsonCodec(),
        StrCodec(),
        BytesCodec(),
        PickleCodec(i_trust_every_writer_of_the_table=True),
    ]
    assert len({codec.type_name for codec in codecs}) == len(codecs)


def test_pickle_wants_to_be_asked_for_in_so_many_words():
    import drainq.delayed

    with pytest.raises(TypeError):
        PickleCodec()
    with pytest.raises(ValueError, match="runs code"):
        PickleCodec(i_trust_every_writer_of_the_table=1)
    codec = PickleCodec(i_trust_every_writer_of_the_table=True)
    assert codec.decode(codec.encode({1, 2})) == {1, 2}
    assert "runs" in PickleCodec.__doc__
    assert "PickleCodec" not in drainq.delayed.__all__


def test_a_codec_of_ones_own_is_used(world):
    class Reversed:
        type_name = "reversed"

        def encode(self, payload):
            return payload[::-1].encode()

        def decode(self, data):
            return data.decode()[::-1]

    queue = world.open(codec=Reversed())
    queue.offer_or_update("a", "abc", world.now)
    assert queue.peek()[0].payload == b"cba"
    assert queue.try_poll().payload == "abc"


def test_a_codec_that_encodes_as_anything_but_bytes_is_refused_and_buffers_are_stored_as_bytes(world):
    class Own:
        type_name = "own"

        def __init__(self, encode):
            self.encode = encode

        def decode(self, data):
            return data

    made = iter("abcdefghij")
    for encode, shown in ((str, "a str"), (int, "an int"), (lambda payload: None, "a NoneType")):
        queue = world.open(next(made), codec=Own(encode))
        for offer in (
            lambda queue=queue: queue.offer("key", 5),
            lambda queue=queue: queue.offer_batch([ScheduledMessage(f"{n}", n, 1.0) for n in range(20)]),
            lambda queue=queue: queue.cron.install_tick(
                "hash", "tick/", [CronMessage(5, datetime(2030, 1, 1, tzinfo=timezone.utc))]
            ),
        ):
            with pytest.raises(TypeError, match=f"encode of the queue's codec must return bytes, got {shown}$"):
                offer()
        assert queue.stats().ready == 0
    for buffer in (bytearray, lambda payload: memoryview(bytes(payload))):
        queue = world.open(next(made), codec=Own(buffer))
        queue.offer("key", b"\0\1")
        queue.offer_batch([ScheduledMessage(f"{n}", bytes([n]), 1.0) for n in range(20)])
        assert {envelope.payload for envelope in queue.get_next_batch(50)} == {
            b"\0\1",
            *(bytes([n]) for n in range(20)),
        }
