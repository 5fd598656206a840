"""Faults of the metrics endpoint, `crates/drainq-py/src/monitoring` and `python/drainq/monitoring`."""

from __future__ import annotations

from .mutant import Mutant

ENDPOINT = "crates/drainq-py/src/monitoring"
TESTS = "tests/monitoring/test_endpoint.py"

MUTANTS = [
    Mutant(
        "endpoint_asks_for_the_gil",
        "the endpoint waits for a handler that holds the GIL",
        f"{ENDPOINT}/http_answer.rs",
        "fork::between_forks(object_registry::read_all)",
        "fork::between_forks(|| crate::gil::held(|_| object_registry::read_all()).unwrap_or_default())",
        f"{TESTS}::test_it_answers_while_a_handler_holds_the_gil",
    ),
    Mutant(
        "child_keeps_the_socket",
        "a forked child keeps the parent's port taken",
        f"{ENDPOINT}/endpoint_thread.rs",
        "drop(unsafe { OwnedFd::from_raw_fd(open.0.as_raw_fd()) });",
        "mem::forget(unsafe { OwnedFd::from_raw_fd(open.0.as_raw_fd()) });",
        "tests/monitoring/test_fork.py::test_the_port_is_free_once_the_parent_closes_although_a_child_lives",
    ),
    Mutant(
        "silent_clients_stay",
        "clients that send nothing keep others out",
        f"{ENDPOINT}/endpoint_thread.rs",
        "self.connections.remove(0);",
        "continue;",
        f"{TESTS}::test_clients_that_send_nothing_keep_nobody_out",
    ),
    Mutant(
        "two_objects_of_one_name",
        "two queues of one name have the same samples",
        f"{ENDPOINT}/object_registry.rs",
        "while is_taken(&free) {",
        "while number == 1 && is_taken(&free) {",
        f"{TESTS}::test_two_queues_of_one_name_are_told_apart_until_one_is_shut_down",
    ),
    Mutant(
        "labels_are_not_escaped",
        "a quote in the key of a sub-queue breaks the text",
        f"{ENDPOINT}/prometheus_text.rs",
        """text.replace('\\\\', "\\\\\\\\").replace('\\n', "\\\\n").replace('"', "\\\\\\"")""",
        "text.to_owned()",
        f"{TESTS}::test_the_counters_of_named_multi_queues_and_set_queues_are_those_of_their_stats",
    ),
    Mutant(
        "failed_sample_forgets_the_last",
        "a delayed queue whose database is away has no samples",
        f"{ENDPOINT}/object_registry.rs",
        "(Some(known), None) => known.errors += 1,",
        "(Some(known), None) => (known.errors, known.samples) = (known.errors + 1, Vec::new()),",
        "tests/monitoring/test_watch.py::test_what_cannot_be_read_keeps_its_last_samples_and_is_counted",
    ),
    Mutant(
        "header_names_by_case",
        "a client that writes its headers in lower case gets the other format",
        f"{ENDPOINT}/http_answer.rs",
        'header.name.eq_ignore_ascii_case("accept")',
        'header.name == "Accept"',
        "tests/monitoring/test_answers.py::test_the_name_of_a_header_may_be_written_in_any_case",
    ),
    Mutant(
        "no_units",
        "OpenMetrics names no units",
        f"{ENDPOINT}/prometheus_text.rs",
        "if let (Self::OpenMetrics, Some(unit)) = (self, family.unit()) {",
        "if let (Self::OpenMetrics, Some(unit), true) = (self, family.unit(), false) {",
        "tests/monitoring/test_answers.py::test_openmetrics_names_the_unit_of_each_family_that_has_one",
    ),
    Mutant(
        "rejected_of_a_sub_queue_is_put",
        "the metric of a sub-queue's rejected items counts those that were put",
        "crates/drainq-py/src/multi/metric_samples.rs",
        "reading.add(Family::SubQueueRejected, &labels, stats.counters.rejected);",
        "reading.add(Family::SubQueueRejected, &labels, stats.counters.put);",
        "tests/monitoring/test_answers.py::test_each_counter_of_a_multi_queue_and_its_sub_queue_is_its_own",
    ),
    Mutant(
        "blocked_putters_of_a_set_queue_are_getters",
        "the metric of the putters that wait for a set queue counts the getters",
        "crates/drainq-py/src/sources/set_queue/metric_samples.rs",
        "reading.add(Family::SetBlockedPutters, &[name], state.putters.blocked());",
        "reading.add(Family::SetBlockedPutters, &[name], state.getters.blocked());",
        "tests/monitoring/test_samples.py::test_a_set_queue_has_these_samples_and_no_others",
    ),
    Mutant(
        "preference_without_end",
        "a client that prefers a format endlessly gets that format",
        f"{ENDPOINT}/http_answer.rs",
        "weight.filter(|weight| weight.is_finite())",
        "weight.filter(|weight| !weight.is_nan())",
        f"{TESTS}::test_the_format_is_the_one_that_the_client_prefers",
    ),
    Mutant(
        "silent_clients_are_not_bounded",
        "a client more than there may be does not take the place of the oldest",
        f"{ENDPOINT}/endpoint_thread.rs",
        "                        self.connections.remove(0);\n",
        "",
        f"{TESTS}::test_clients_that_send_nothing_keep_nobody_out",
    ),
    Mutant(
        "last_reference_is_kept",
        "a queue whose last reference is the endpoint's never ends",
        f"{ENDPOINT}/object_registry.rs",
        '    let _ = thread::Builder::new().name("drainq-end".into()).spawn(end);\n',
        "    let _ = (thread::Builder::new(), end);\n",
        "tests/monitoring/test_endpoint_thread.py"
        "::test_a_queue_whose_last_reference_is_the_endpoint_s_ends_all_the_same",
    ),
    Mutant(
        "connection_left_to_a_child",
        "a connection that is closed stays open for its client as long as a forked child lives",
        f"{ENDPOINT}/endpoint_thread.rs",
        "        let _ = self.stream.shutdown(Shutdown::Both);\n",
        "        let _ = &self.stream;\n",
        "tests/monitoring/test_fork.py::test_a_connection_ends_at_once_although_a_child_lives",
    ),
    Mutant(
        "answer_ends_with_its_connection",
        "a client that reads to the end waits until it is given up",
        f"{ENDPOINT}/endpoint_thread.rs",
        "                    let _ = self.stream.shutdown(Shutdown::Write);\n",
        "",
        "tests/monitoring/test_endpoint_thread.py::test_an_answer_ends_before_its_client_closes",
    ),
]
