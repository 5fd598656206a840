"""The parts of client and server, without a network: numbers, places, which server is tried, what is remembered."""

from __future__ import annotations

import gc
import sys
import threading
from types import SimpleNamespace
from typing import Literal

import pytest

pytest.importorskip("grpc")

import msgspec

from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
from drainq.delivery import DeliveryStopped, Unavailable
from drainq.export import RemoteServer
from drainq.export.remote import peer as peers
from drainq.export.remote.client import PAUSE, RemoteSink
from drainq.export.remote.peer import Peer, PeerFailed, PeerParcel
from drainq.export.remote.received import Received
from drainq.export.remote.routing import Router, owner
from drainq.export.remote.server import _Closing, _Delivered
from drainq.export.remote.wire import LARGEST, OVERHEAD, Ack, WireBatch, encode
from drainq.testing import ManualClock
from tests.patience import PATIENCE, Call, eventually

from .gatherer import LOCAL


class Server:
    """A peer that settles each batch by the next of its answers: a list of refusals, or an error. Then it takes all."""

    def __init__(self, *answers):
        self.answers, self.batches, self.failed_at, self.closed = list(answers), [], [], False

    def put(self, parcel, after):
        assert not parcel.settled
        self.batches.append(parcel.batch)

    def wait_for(self, parcel):
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            parcel.failure = answer
        else:
            parcel.ack = Ack(parcel.batch.number, answer)

    def is_up(self, now, pause):
        return not self.failed_at

    def note_failure(self, now):
        self.failed_at.append(now)

    def cancel(self):
        self.answers = [AssertionError("it sends on")]

    def close(self):
        self.closed = True

    def sent(self):
        return [(batch.number, batch.settled, len(batch.items)) for batch in self.batches]


def sink_to(rule="first", key=None, batch_items=1000, **servers):
    sink = RemoteSink([], None, Router(rule, key), window=1, timeout=1.0, batch_items=batch_items, clock=ManualClock())
    sink._peers, sink._addresses = dict(servers), tuple(servers)
    return sink


def failed(code=None):
    return PeerFailed(
        "away", code and SimpleNamespace(code=lambda: SimpleNamespace(name=code), trailing_metadata=tuple)
    )


def rest_of(sink, items, kind=Unavailable):
    with pytest.raises(kind) as error:
        sink.send(items)
    assert type(error.value) is kind
    return error.value.rest


def test_a_number_is_settled_once_its_batch_is_acknowledged_or_given_up():
    sink = sink_to("hash", key=str, a=(server := Server([], failed(), failed())))
    sink.send([1])
    rest = rest_of(sink, [2])
    rest = rest_of(sink, rest)  # the same number again; the first rest is gone, and settles nothing
    gc.collect()
    sink.send([3])
    assert server.sent() == [(1, 1, 1), (2, 2, 1), (2, 2, 1), (3, 2, 1)]
    del rest
    gc.collect()
    sink.send([4])
    assert server.sent()[-1] == (4, 4, 1)


def test_a_refusal_names_the_place_in_what_was_sent_first_and_then_in_the_rest():
    answers = ([(0, "odd")], failed(), failed(), [(1, "odd"), (None, "one")], [(0, "odd")])
    sink = sink_to("hash", key=str, a=Server(*answers), batch_items=2)
    with pytest.raises(Unavailable) as error:
        sink.send([object(), 1, 2, 3, 4, 5])
    assert [place for place, _ in error.value.refusals] == [0, 1] and list(error.value.rest) == [3, 4, 5]
    assert list(error.value.rest.places) == [3, 4, 5]
    assert [place for place, _ in sink.send(error.value.rest)] == [1, None, 2]


@pytest.mark.parametrize(
    ("codes", "kind"),
    [(["UNIMPLEMENTED"] * 2, DeliveryStopped), (["UNIMPLEMENTED", None], Unavailable), ([None] * 2, Unavailable)],
)
def test_only_servers_that_will_never_take_anything_stop_the_client(codes, kind):
    sink = sink_to(a=(server := Server(*map(failed, codes))), batch_items=1)
    rest_of(sink, [1, 2], kind)
    assert len(server.failed_at) == 2


def test_after_some_tries_another_server_gets_the_batch_under_a_new_number():
    sink = sink_to("first", a=(first := Server(failed(), failed())), b=(second := Server()))
    rest = rest_of(sink, [1, 2])
    rest = rest_of(sink, rest)
    assert not sink.send(rest)
    assert first.sent() == [(1, 1, 2)] * 2 and second.sent() == [(2, 2, 2)]


def test_a_server_that_left_the_list_is_closed_and_what_it_owed_goes_to_another():
    sink = sink_to("hash", key=str, a=(gone := Server(failed(), failed())), batch_items=1)
    rest = rest_of(sink, [1, 2])
    sink._peers["b"] = there = Server([], [(0, "odd")])
    sink._addresses = ("b",)
    assert sink.send(rest) == [(1, "odd")] and there.sent() == [(3, 2, 1), (4, 3, 1)]
    assert gone.closed and not there.closed


def test_after_the_cancel_nothing_is_sent():
    sink = sink_to(a=(server := Server()))
    sink.cancel()
    assert list(rest_of(sink, [1, 2])) == [1, 2] and server.sent() == [] and len(server.answers) == 1
    with pytest.raises(Unavailable, match="^a: not sent$"):
        sink.send([1, 2])
    sender, sink._connect = sink._sender, lambda address: None
    sink.forget()
    assert sink._sender != sender and sink.addresses == ("a",)
    sink._peers = {"a": server}
    sink.close()
    assert server.closed and not sink._peers


def test_a_batch_is_full_at_its_items_and_at_its_bytes():
    sink = sink_to(a=(server := Server()), batch_items=2)
    fits = b"x" * (LARGEST - OVERHEAD - len(encode(b"x" * (LARGEST - OVERHEAD - 10))) + LARGEST - OVERHEAD - 10)
    assert len(encode(fits)) == LARGEST - OVERHEAD
    assert [place for place, _ in sink.send([1, 2, 3, fits, fits + b"x", 4])] == [4]
    assert [count for *_, count in server.sent()] == [2, 1, 1, 1]


def test_a_key_has_the_server_of_its_type_and_value_whatever_was_asked_before():
    router = Router("hash", lambda key: key)
    ordered, turned = {"a": 1, "b": 2}, {"b": 2, "a": 1}  # one key, however its parts are ordered
    assert owner(ordered, many := [f"{number}:1" for number in range(99)]) == owner(turned, many)
    for addresses in (["a", "b", "c"], ["b", "c", "d"], ["a", "b", "c"]):
        for key in [*range(20), True, 1.0, "1", [1], [2]]:
            assert router.split([key], addresses, lambda _: True) == {owner(key, addresses): [0]}


def grpc_error(code):
    error = OSError(code)
    error.code, error.details = lambda: SimpleNamespace(name=code), lambda: "away"
    error.trailing_metadata = tuple
    return error


def fails(error):
    yield from ()
    raise error


def parcel(number):
    return PeerParcel(WireBatch("s", number, 1, [msgspec.Raw(b"\x01")]), [0], "a")


def test_a_peer_is_passed_over_for_a_while_after_a_failure_and_not_once_it_answers():
    peer = Peer(None, window=1, timeout=1.0)
    peer.note_failure(10.0)
    up = [peer.is_up(now, PAUSE) for now in (9.9, 10.0, 10.0 + PAUSE - 0.1, 10.0 + PAUSE)]  # a clock may go back
    assert up == [True, False, False, True]
    peer.acknowledged()
    assert peer.is_up(10.0, PAUSE)


def test_a_batch_fails_with_the_one_that_it_must_not_overtake():
    peer, before, after = Peer(None, window=1, timeout=1.0), parcel(1), parcel(2)
    before.failure = failed()
    peer.put(after, before)
    assert after.failure is before.failure and after.settled


def test_a_stream_moves_with_its_first_batch_and_with_each_answer_and_stays_while_it_is_owed_one(monkeypatch):
    monkeypatch.setattr(peers, "IDLE", 0.0)
    peer = Peer(None, window=2, timeout=1.0)
    stream, one, two = peers._Stream(peer, None), parcel(1), parcel(2)
    peer.note_failure(1.0)
    peer._stream, requests = stream, stream.requests()
    moves = []
    for do in (lambda: peer.put(one, None), lambda: peer.put(two, None), lambda: stream._acknowledge(Ack(1))):
        stream.moved_at = 0.0
        do()
        moves.append(stream.moved_at > 0)
    assert moves == [True, False, True] and one.ack == Ack(1) and peer.is_up(1.0, PAUSE)
    assert [next(requests), next(requests)] == [encode(one.batch), encode(two.batch)]
    peer.put(parcel(3), None)
    assert next(requests) == encode(parcel(3).batch)
    waits, next_one = Call(lambda: peer.put(parcel(4), None)), Call(lambda: next(requests))
    assert not waits.done() and not next_one.done()  # the window is full
    stream._acknowledge(Ack(2))
    waits.result()
    assert next_one.result() == encode(parcel(4).batch)
    no_answer = "the answer is not one of a drainq server"
    for data, why in (([b"?"], no_answer), ([b"\xc1"], no_answer), ([], "the server closed the stream")):
        with peer.changed:
            stream.put(last := parcel(5))
        stream._call = iter(data)
        stream._read()
        assert why in str(last.failure) and stream.over and not stream.under_way
    lost = grpc_error("UNAVAILABLE")
    for why, error in ((None, lost), ("cancelled", None)):
        with peer.changed:
            stream.put(last := parcel(6))
        stream._why, stream._call, stream._connection = why, fails(lost), SimpleNamespace(target="h:1")
        stream._read()
        assert last.failure.error is error and (why or "UNAVAILABLE") in str(last.failure)


def test_a_stream_without_an_answer_is_broken_off_when_its_time_is_over_and_no_later(monkeypatch):
    clock, waits, why = ManualClock(104.0), [], []
    monkeypatch.setattr(peers, "time", SimpleNamespace(monotonic=clock.now))
    peer = Peer(None, window=1, timeout=10.0)
    peer._stream = SimpleNamespace(moved_at=100.0, over=False, break_off=why.append)
    peer.changed.wait = lambda seconds: waits.append(seconds) or clock.advance(seconds)
    peer.wait(lambda stream: len(waits) == 2)
    assert waits == [6.0, 10.0] and why == ["no acknowledgement for 10 s"]


def test_a_batch_is_handled_once_until_it_is_settled_dropped_or_its_sender_is_forgotten():
    received = Received(most_senders=2)

    def begin(number, settled=1, sender="s"):
        return received.begin(WireBatch(sender, number, settled, []))

    entry, first = begin(1)
    assert first and begin(1) == (entry, False) and begin(2, settled=2)[1]
    assert begin(1) == (entry, False)  # it is still being handled
    received.answer(entry, Ack(1))
    assert begin(2, settled=1)[1] is False and begin(1) == (entry, False)
    begin(2, settled=2)
    dropped, first = begin(1)
    assert first and dropped is not entry
    received.drop(WireBatch("s", 1, 1, []), dropped)
    assert dropped.done.is_set() and dropped.ack is None  # who waits for its answer hears of it
    again, first = begin(1)
    received.drop(WireBatch("s", 1, 1, []), dropped)  # of a try before: it is not the present one's
    assert first and begin(1) == (again, False)
    received.answer(again, Ack(1))
    other, _ = begin(1, sender="other")
    received.answer(other, Ack(1))
    kept = received._senders  # "s" has one that is being handled
    assert not begin(1, sender="other")[1] and {sender: len(of) for sender, of in kept.items()} == {"s": 2, "other": 1}
    begin(1, sender="third")
    assert begin(1)[1] is False and begin(1, sender="other")[1]
    received = Received(most_senders=2)
    for sender in "abac":  # "b" was silent longest
        received.answer(begin(1, sender=sender)[0], Ack(1))
    assert begin(1, sender="a")[1] is False


def test_a_server_counts_what_it_handled_and_names_places_in_the_batch(gathered):
    gathered.errors.append(ValueError("odd"))
    with RemoteServer(address=LOCAL, handler=gathered, type=int) as server:
        data = encode(WireBatch("s", 1, 1, [msgspec.Raw(encode(item)) for item in ("three", 1, 2)]))
        ack = server._receive(data)
        assert [place for place, _ in ack.refused] == [0, 1, 2] and server._receive(data) == ack
        server._receive(encode(WireBatch("s", 2, 1, [msgspec.Raw(encode("four"))])))
        stats = server.stats()
        assert (stats.received, stats.refused, stats.failed, stats.repeated) == (4, 2, 2, 3) and gathered.entered == 1


def test_no_server_that_works_is_still_the_one_whose_turn_it_is():
    for rule, chosen in (("first", "aaa"), ("rolling", "aba")):
        router = Router(rule, None)
        assert [list(router.split([1], ["a", "b"], lambda _: False)) for _ in range(3)] == [[peer] for peer in chosen]
    rolling = Router("rolling", None)
    assert [list(rolling.split([1], ["a", "b"], "a".__eq__)) for _ in range(3)] == [["a"]] * 3


@pytest.mark.parametrize("shown", [False, True])
def test_values_are_in_no_log_and_no_answer_unless_that_is_said(shown, caplog):
    def fails(items):
        raise ValueError(f"no {items[0]}s")

    words = ["word", "word", "secret"]
    with RemoteServer(address=LOCAL, handler=fails, type=Literal["word"], log_values=shown) as server:
        ack = server._receive(encode(WireBatch("s", 1, 1, [msgspec.Raw(encode(word)) for word in words])))
    assert [place for place, _ in ack.refused] == [2, 0, 1]
    (_, of_item), (_, of_handler), _ = ack.refused
    assert caplog.messages == [f"the handler of {server!r} failed with 2 items"]
    assert ("secret" in of_item, "no words" in of_handler, "no words" in caplog.text) == (shown,) * 3


def test_a_close_ends_the_idle_streams_and_waits_for_the_others():
    told = []
    with RemoteServer(address=LOCAL, handler=print) as server:
        for name, busy in (("idle", False), ("busy", True)):
            server._contexts[type("Stream", (), {"cancel": lambda self, name=name: told.append(name)})()] = busy
        assert server.close(0) is False and told == ["idle"]
        server._contexts.clear()
    server = RemoteServer(address=LOCAL, handler=print)
    server._renew_in_child()  # a child has no server
    assert server.wait(0) and server.close(0) and repr(server).endswith(", closed>")


def test_items_whose_handler_was_not_called_to_its_end_are_not_acknowledged():
    gate, began, told = threading.Event(), threading.Event(), "^the server closed before the handler was called$"
    server = RemoteServer(address=LOCAL, handler=lambda items: (began.set(), gate.wait(PATIENCE)))
    first = Call(lambda: server._to_handler([1]))
    assert began.wait(PATIENCE)
    second = Call(lambda: server._to_handler([2]))  # waits behind the first
    eventually(lambda: len(server._waiting) == 2)
    assert server.close(0) is False
    for waiting in (first, second):
        with pytest.raises(_Closing, match=told):
            waiting.result()
    gate.set()
    with pytest.raises(_Closing, match=told):  # its queue takes no more
        server._to_handler([3])
    assert not server._waiting


def test_a_handler_that_exits_lets_the_streams_behind_it_go_on():
    with RemoteServer(address=LOCAL, handler=lambda items: sys.exit(3)) as server:
        batch = [_Delivered([1]), _Delivered([2])]
        with pytest.raises(SystemExit):
            server._call_handler(batch)
    assert [(type(each.error), each.done.is_set()) for each in batch] == [(SystemExit, True), (_Closing, True)]


@pytest.mark.parametrize(("running", "why"), [(True, "is full, and does not wait"), (False, "was shut down")])
def test_a_batch_of_which_a_queue_took_a_part_is_answered_with_what_it_refused(running, why):
    behind = SimpleNamespace(produce_many=lambda items: 1, running=running)
    refused = RemoteServer._to_queue(SimpleNamespace(_queue=behind), [1, 2, 3])
    assert refused == [(None, f"the queue behind the server {why}")] * 2


def test_a_batch_for_a_queue_that_is_shut_down_is_not_received_and_may_come_again():
    with RemoteServer(address=LOCAL, handler=print) as server:
        server._own.shutdown()
        with pytest.raises(_Closing):
            server._receive(encode(WireBatch("s", 1, 1, [msgspec.Raw(b"\x01")])))
    with BatchQueue("behind", BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=print)) as queue:
        with RemoteServer(address=LOCAL, queue=queue) as server:
            queue.shutdown()
            for _ in range(2):
                with pytest.raises(_Closing):
                    server._receive(encode(WireBatch("s", 1, 1, [msgspec.Raw(b"\x01")])))
            assert server.stats().received == server.stats().repeated == 0 and server.wait(0) is False
        assert server.close() and server.wait(0) is True
