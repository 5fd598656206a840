"""Faults in the exporters, and in what a sink may answer."""

from __future__ import annotations

from .mutant import Mutant

EXPORT = "python/drainq/export"
DELIVERY = "python/drainq/delivery"
OTLP, KAFKA, REMOTE = "tests/export/test_otlp.py", "tests/export/test_kafka.py", "tests/export/test_remote.py"

MUTANTS = [
    Mutant(
        "rest_is_sent_with_the_answered",
        "what the sink has answered for is sent again with the rest",
        f"{DELIVERY}/delivery.py",
        "                    part = rest\n",
        "                    pass\n",
        "tests/delivery/test_answer.py::test_after_a_part_only_the_rest_is_sent_again_as_the_very_list_that_the_sink_gave",
    ),
    Mutant(
        "nameless_refusals_count_as_sent",
        "points that the server rejected without naming them count as sent",
        f"{DELIVERY}/sink_answer.py",
        "                answer.complaints.append(reason)\n",
        "                pass\n",
        f"{OTLP}::test_the_points_of_a_partial_success_are_refused",
    ),
    Mutant(
        "exhausted_always_passes",
        "a server that is exhausted and names no delay is asked again",
        f"{EXPORT}/grpc_errors.py",
        'name == "RESOURCE_EXHAUSTED" and after is not None',
        'name == "RESOURCE_EXHAUSTED"',
        f"{OTLP}::test_what_otlp_says_must_not_be_sent_again_is_refused_at_once",
    ),
    Mutant(
        "large_requests_go_out",
        "a request that no server takes is sent",
        f"{EXPORT}/otlp.py",
        "        if len(request) > self._limit:\n",
        "        if not request:\n",
        f"{OTLP}::test_a_batch_that_is_too_large_is_split_before_it_is_sent",
    ),
    Mutant(
        "running_calls_go_on",
        "a call goes on after close",
        f"{EXPORT}/grpc_calls.py",
        "        for call in running:\n            call.cancel()\n",
        "        del running\n",
        f"{OTLP}::test_a_peer_that_does_not_answer_cannot_hold_up_close_and_its_call_is_cancelled",
    ),
    Mutant(
        "attributes_of_equal_keys_are_one",
        "True, 1 and 1.0 are one attribute",
        f"{EXPORT}/otlp_encode.py",
        "(*attributes.items(), *map(type, attributes.values()))",
        "tuple(attributes.items())",
        "tests/export/test_otlp_encode.py::test_attributes_that_are_equal_and_of_different_types_stay_apart",
    ),
    Mutant(
        "timed_out_is_known",
        "a message that timed out is not counted as unknown",
        f"{EXPORT}/kafka_errors.py",
        'unknown=name(error) not in CANNOT_PASS and name(error) != "_PURGE_QUEUE"',
        "unknown=False",
        f"{KAFKA}::test_a_dead_broker_is_waited_for_and_then_its_messages_are_lost_and_unknown",
    ),
    Mutant(
        "nothing_is_purged",
        "messages that count as lost arrive after close",
        f"{EXPORT}/kafka.py",
        "    producer.purge(in_queue=True, in_flight=True)\n",
        "    producer.poll(0)\n",
        f"{KAFKA}::test_close_returns_by_its_deadline_with_an_exact_account",
    ),
    Mutant(
        "stopped_producer_stays",
        "after a missing right the next messages are refused, too",
        f"{EXPORT}/kafka.py",
        "        if wrong is not None:\n            self._discard(producer)\n",
        "        if wrong is not None:\n",
        f"{KAFKA}::test_a_missing_right_stops_the_exporter_until_it_is_there",
    ),
    Mutant(
        "server_forgets_batches",
        "a batch that comes again is handled again",
        f"{EXPORT}/remote/received.py",
        "            first = entry is None\n",
        "            first = True\n",
        f"{REMOTE}::test_a_batch_whose_acknowledgement_was_lost_is_not_handled_twice",
    ),
    Mutant(
        "batch_gets_a_new_number",
        "a batch that is sent again has a new number, and the server takes it for another one",
        f"{EXPORT}/remote/client.py",
        "                again.append(parcel)\n                continue\n            split =",
        "                again.append(self._numbered(parcel))\n                continue\n            split =",
        f"{REMOTE}::test_a_batch_whose_acknowledgement_was_lost_is_not_handled_twice",
    ),
    Mutant(
        "later_batches_overtake",
        "batches that follow one that failed are sent before it is sent again",
        f"{EXPORT}/remote/peer.py",
        "            if after is not None and after.failure is not None:\n",
        "            if after is self and after.failure is not None:\n",
        f"{REMOTE}::test_connections_that_break_at_any_time_lose_and_double_nothing",
    ),
    Mutant(
        "acknowledged_before_handled",
        "a batch is acknowledged before its handler has returned",
        f"{EXPORT}/remote/server.py",
        "        delivered.done.wait()\n        if delivered.error",
        "        delivered.handled = True\n        if delivered.error",
        f"{REMOTE}::test_a_handler_that_raises_refuses_its_batch_and_the_next_one_goes_on",
    ),
    Mutant(
        "unwanted_totals_go_out",
        "a total is sent to a server that wants every increment",
        f"{EXPORT}/skywalking.py",
        "(self._wanted or event == TOTAL)",
        "self._wanted",
        "tests/export/test_skywalking.py::test_an_empty_list_is_every_increment",
    ),
]
