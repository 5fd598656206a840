"""The faults of the core, which are compiled into it, each with the model or test that must notice.

A fault is a place in the core that asks `planted("name")`, `order("name", ..)` or `full_fence("name")`. The lists below
must be the list of faults in the sources; `core_room.py` checks that, plants the faults, and runs the models and tests.
"""

from __future__ import annotations

FAULTS: dict[str, dict[str, str]] = {
    "models::ring::words::every_item_arrives_once_and_each_producers_in_order": {
        "segment_install": "install a segment Relaxed",
        "segment_find": "a producer finds it Relaxed",
        "segment_read": "the consumer finds it Relaxed",
    },
    "models::ring::words::a_slot_is_free_again_once_its_item_was_taken": {
        "ring_free": "move the head Relaxed",
        "ring_head": "read the head Relaxed in a claim",
    },
    "models::ring::words::a_producer_may_go_by_what_another_saw_of_the_consumer": {
        "ring_limit": "pass the limit on Relaxed",
        "ring_limit_read": "read the limit Relaxed",
    },
    "models::ring::words::an_item_is_accepted_before_the_close_or_refused": {
        "ring_check_then_push": "check CLOSED, then add",
    },
    "models::ring::words::the_length_is_never_negative": {
        "ring_len": "read the head Relaxed for the length",
    },
    "models::ring::words::a_segment_is_used_again_with_all_its_slots_empty": {
        "segment_recycle": "give a segment back Relaxed",
        "segment_reuse": "use it again Relaxed",
    },
    "models::ring::words::two_producers_never_get_the_same_spare_segment": {
        "segment_taken_twice": "leave a spare segment in the list",
    },
    "models::append_only_table::a_reader_of_the_length_sees_the_element": {
        "table_publish": "publish the length Relaxed",
        "table_read": "read the length Relaxed",
    },
    "models::ownership::the_next_owner_sees_the_whole_pass_of_the_last": {
        "ownership_begin": "begin a pass Relaxed",
        "ownership_end": "end a pass Relaxed",
        "ownership_no_fence": "assign without the cycle fence",
    },
    "models::ownership::after_the_revoke_the_old_owner_starts_no_other_pass": {
        "ownership_anybody": "begin without being the owner",
    },
    "models::sleeper::an_item_published_to_an_idle_thread_is_never_missed": {
        "wake_producer_fence": "no fence in the producer",
        "wake_sleeper_fence": "no fence in the sleeper",
        "wake_second_check": "no second check",
    },
    "models::sleeper::within_the_producers_lock_no_fence_is_needed": {
        "wake_sync": "the producers' lock is not taken before the second check",
    },
    "models::sleeper::a_thread_that_sleeps_on_is_woken": {
        "wake_sleep_on": "a thread that sleeps on is awake for its producers",
    },
    "models::moves::an_item_produced_during_the_move_is_drained_by_the_new_owner": {
        "sleep_on_look": "a thread that sleeps on does not look for work",
    },
    "models::moves::a_claim_is_never_slept_over": {
        "claim_fence": "no fence after the claim",
    },
    "models::moves::an_item_pushed_on_the_fast_path_is_never_slept_over": {
        "fast_close": "the fast path is not closed",
    },
    "models::ring::words::on_the_fast_path_every_slot_was_free": {
        "fast_head": "read the head Relaxed when the fast path is opened",
    },
    "models::ring::words::serialised_producers_lose_nothing_on_the_fast_path": {
        "ring_publish": "publish a word Relaxed",
    },
    "models::ring::inline::serialised_producers_lose_nothing_on_the_fast_path": {
        "inline_publish": "set the mark of an inline item Relaxed",
    },
    "models::ring::words::on_the_fast_path_the_capacity_is_exact": {
        "fast_room": "the fast path is open in a full ring",
    },
    "models::ring::words::serialised_producers_lose_nothing": {
        "ring_read": "read a word Relaxed",
    },
    "models::ring::inline::serialised_producers_lose_nothing": {
        "inline_read": "read the mark of an inline item Relaxed",
    },
    "models::lines::a_waiter_is_woken_by_room_that_is_made_without_the_lock": {
        "lines_enter_fence": "no fence after a waiter is counted",
        "lines_wake_fence": "no fence after making room",
    },
    "models::waiters::a_waiting_producer_is_notified_when_a_slot_is_freed": {
        "waiters_notify_fence": "no fence after freeing",
        "waiters_enter_fence": "no fence after entering",
    },
    "models::waiters::a_notified_producer_that_gives_up_notifies_the_next": {
        "waiters_pass_on": "a notification is lost with its producer",
    },
    "models::waiters::each_freed_slot_finds_its_producer": {
        "waiters_unused_notification": "a notification that was not needed is lost",
        "waiters_second_notification": "a notification while entering again counts as answered",
    },
    "models::moves::a_partition_given_to_a_sleeping_thread_is_drained": {
        "move_epoch": "a move does not bump the epoch",
        "move_wake": "a move does not wake the owner",
        "move_fence": "no fence before that wake-up",
        "move_epoch_publish": "bump the epoch Relaxed",
        "move_epoch_read": "read the epoch Relaxed",
    },
    "models::moves::a_pass_hands_the_partition_over_when_it_ends": {
        "move_at_pass_end": "a pass ends, and its new owner is not woken",
    },
    "models::moves::a_new_partition_is_drained": {
        "grow_epoch": "growth does not bump the epoch",
    },
    "models::ends::a_flush_returns_after_the_handler_call": {
        "flush_publish": "say Relaxed that a pass is over",
        "flush_read": "read it Relaxed",
        "flush_notify": "do not notify the waiters",
    },
    "models::ends::a_flush_returns_though_the_partition_changes_hands": {
        "flush_mark_late": "mark what is handled when the partition is another thread's already",
    },
    "models::ends::a_flush_ends_the_gathering": {
        "flush_wake": "a flush leaves threads to their nap",
    },
    "models::ends::a_cut_ends_the_wait_of_a_flush": {
        "cut_notify": "a cut notifies no waiter",
    },
    "models::ends::a_shutdown_waits_for_the_handler_call": {
        "drained_in_flight": "call a queue drained while a handler has its items",
    },
    "models::ends::a_close_ends_the_wait_for_the_next_look": {
        "close_wait_open": "leave the balancer's thread waiting",
    },
    "models::ends::a_flush_does_not_count_what_the_cut_gave_up": {
        "flush_after_cut": "count what the cut took as done",
    },
    "models::ends::a_close_releases_a_blocked_producer_with_its_item": {
        "close_notify_producers": "leave producers waiting",
    },
    "models::ends::a_close_loses_nothing_and_ends_the_thread": {
        "close_wake_threads": "leave drain threads asleep",
    },
    "models::ends::at_a_close_every_thread_ends": {
        "close_wake_peers": "end without waking the others",
    },
    "models::ends::a_cut_counts_an_item_that_is_being_pushed": {
        "cut_unpublished": "leave a claimed slot behind",
    },
    "models::ends::a_cut_counts_each_item_once": {
        "cut_account": "account for a batch after the cut",
        "cut_mark": "a thread does not know of the cut",
    },
    "models::ends::a_half_full_partition_ends_the_gathering": {
        "linger_check": "no second check before the items gather",
    },
    "models::weights::two_items_too_heavy_for_one_partition_are_never_in_it_together": {
        "weights_check_then_add": "read the weight that is used, then add",
    },
    "models::queue_capacity::a_producer_gets_the_place_that_another_partition_frees": {
        "bound_notify": "wake nobody who waits for a place of the queue",
    },
    "models::weights::no_producer_is_refused_where_there_is_always_room": {
        "weights_two_counters": "take the difference of two counters of different ages for what is used",
        "weights_took": "the weight of what was taken stays used",
    },
    "models::weights::a_producer_that_waits_for_room_for_its_weight_gets_it": {
        "weights_notify_early": "notify producers before the weight is free",
    },
    "models::pool::an_item_for_a_pooled_queue_is_never_slept_over": {
        "pool_second_check": "a slot falls asleep without a second check",
        "pool_ring_lent": "a ring for a slot that is lent is forgotten",
        "pool_ring_notify": "a ring notifies no thread",
    },
    "models::pool::a_queue_that_hangs_leaves_a_thread_to_the_other": {
        "pool_share": "one queue may have all threads",
    },
    "models::pool::a_queue_that_joins_with_work_is_drained": {
        "pool_add": "a new queue notifies no thread",
    },
    "models::pool::threads_without_a_queue_end_when_the_scheduler_stops": {
        "pool_stop": "a stop notifies no thread",
    },
    "models::pool::the_end_of_the_last_queue_ends_every_thread": {
        "pool_last_queue": "the end of the last queue notifies no thread",
    },
    "models::pool::an_item_produced_under_a_lock_for_a_pooled_queue_is_never_slept_over": {
        "pool_fence": "no fence in a pool's serialised producer",
    },
    "multi::models::every_blocked_putter_is_woken_by_room_of_its_own": {
        "multi_enter": "wait without a second try",
    },
    "multi::models::a_putter_that_gives_up_passes_its_wake_up_on": {
        "multi_pass_on": "a wake-up is lost",
    },
    "multi::models::every_blocked_getter_is_woken_by_an_item_of_its_own": {
        "tickets_spent": "a token stays promised when its waiter leaves",
    },
    "multi::models::a_joiner_is_woken_by_the_last_item_that_is_done_and_sees_what_was_done": {
        "multi_join": "a joiner is not woken by the last item that is done",
    },
    "multi::models::shutdown_wakes_getters_and_putters": {
        "multi_final": "shutdown wakes nobody",
    },
    "multi::models::a_wake_up_for_an_unreachable_getter_goes_to_the_next": {
        "multi_unreachable": "a waiter that cannot be reached keeps its wake-up",
    },
    "multi::models::a_putter_learns_that_the_multi_queue_is_gone": {
        "multi_orphan": "putters do not learn that there are no getters any more",
    },
    "multi::models::two_bulk_getters_never_share_what_is_enough_for_one": {
        "multi_hold_and_wait": "a bulk getter takes what there is, and waits",
    },
    "multi::models::a_bulk_getter_holds_what_a_full_sub_queue_keeps_others_out_with": {
        "multi_stuck": "a bulk getter holds nothing although producers are kept out",
    },
    "multi::tests::only_the_first_bulk_getter_holds": {
        "tickets_holder": "any bulk getter holds",
    },
    "multi::tests::a_getter_of_one_behind_a_bulk_getter_is_woken_for_one_item": {
        "tickets_skip": "a waiter that needs more keeps those behind it asleep",
    },
    "multi::tests::what_is_held_of_a_removed_sub_queue_stays_with_it": {
        "multi_reclaim": "a removed sub-queue does not get back what is held of it",
    },
    "multi::tests::what_a_bulk_getter_holds_goes_back_to_the_head_when_it_leaves": {
        "multi_give_back": "what is given back comes in the wrong order",
    },
    "multi::tests::one_by_one_a_bulk_getter_gives_back_what_is_too_little": {
        "multi_keep": "too little is kept by a waiter that is not the holder",
    },
    "multi::tests::a_wake_up_that_is_not_used_between_two_looks_goes_to_the_next": {
        "tickets_lapse": "a wake-up that nobody uses stays where it is",
    },
    "multi::tests::a_wake_up_given_or_used_since_the_last_look_is_not_stalled": {
        "tickets_numbers": "a wake-up that was used still counts as under way",
    },
    "multi::tests::slots_of_removed_sub_queues_are_used_again_and_given_back": {
        "multi_slots": "the place of a removed sub-queue is not used again",
    },
    "sources::set_queue::tests::slots_are_used_again": {
        "set_queue_slots": "the place of a forgotten entry is not used again",
    },
    "sources::set_queue::tests::a_token_of_a_poll_is_never_given_twice": {
        "set_queue_polls": "poll tokens start anew after a reset",
    },
    "sources::set_queue::tests::an_entry_done_during_a_poll_stays_known_until_it_ends": {
        "set_queue_fence": "a poll does not keep what is done known",
    },
    "models::tickets::a_waiter_is_woken_for_what_it_waits_for": {
        "thread_unpark": "a waiter is woken and its thread is not",
    },
}
"""For each model the faults that it must notice: their names, and what is wrong."""

TEST_FAULTS: dict[str, dict[str, str]] = {
    "batch::drop_counts::tests::what_was_taken_was_told_and_what_was_not_there_was_not": {
        "drops_at_once": "every count is told at once, however many there are",
    },
    "batch::shared_scheduler_board::tests::no_thread_stays_parked_while_there_is_work": {
        "pool_timekeeper": "a thread parks for ever, though a slot will be due",
        "pool_notify_keeper": "a ring notifies the thread that keeps the time, and leaves one that does not",
    },
    "batch::shared_scheduler_board::tests::queues_take_turns_and_so_do_the_slots_of_each": {
        "pool_queue_turn": "the first queue always comes first",
        "pool_slot_turn": "the first slot of a queue always comes first",
    },
    "running::its_end_hands_out_what_was_accepted_and_ends_the_threads": {
        "running_drop": "leave the threads of a dropped queue behind",
    },
    "running::a_handler_may_end_its_own_queue": {
        "running_own_thread": "a thread waits for its own end",
    },
    "passes::a_pass_takes_a_few_batches_at_most": {
        "pass_cap": "a pass takes from all partitions",
    },
    "passes::a_queue_that_was_alone_leaves_a_thread_of_the_pool_to_the_next": {
        "pool_share_of_a_loan": "a queue that was alone hangs on every thread of its pool",
    },
    "passes::every_partition_has_its_turn_under_overload": {
        "pass_turn": "each pass starts with the first partition",
    },
    "passes::after_the_close_one_thread_may_drain_all_partitions": {
        "close_own_only": "after the close too a thread drains only its own",
    },
    "passes::a_partition_that_comes_after_the_close_is_closed": {
        "grow_closed": "a partition that comes after the close is open",
    },
    "passes::the_weight_of_an_item_that_was_refused_is_free_again": {
        "weights_take_back": "the weight of an item that found no slot stays used",
    },
    "passes::the_credit_of_a_partition_is_taken_back_when_another_needs_its_places": {
        "bound_recall": "refuse an item while other partitions have credit",
    },
    "whole_queue::partitions_that_share_a_capacity_agree_with_plain_lists": {
        "bound_credit_end": "credit that was not used is gone",
    },
    "passes::an_item_heavier_than_a_partition_is_let_in_alone": {
        "weights_too_heavy": "an item heavier than a partition is never let in",
    },
    "safe_code::no_weight_makes_a_counter_wrap": {
        "weights_bound": "take any weight as it is",
    },
    "safe_code::a_pass_that_is_dropped_counts_what_it_did_not_account_for_as_abandoned": {
        "pass_dropped": "what a pass leaves is nowhere",
    },
    "safe_code::a_pass_that_is_forgotten_ends_with_the_next_or_with_its_drainer": {
        "pass_forgotten": "begin a pass though one is not over",
    },
    "safe_code::a_worker_has_one_drainer_at_a_time": {
        "worker_claim": "give out a worker twice",
    },
}
"""The same for tests in which interleavings do not matter, by the path in the library or in one of TESTS."""

TESTS = ["passes", "running", "safe_code", "whole_queue"]
"""The programs of such tests, beside the library's own."""

UNFENCED = "models::ring::"
"""The models of the ring run without the fence after a claim, and must pass and notice faults without it. That fence
is for sleepers, x86 has none, and with it most orderings of the ring could be weaker unnoticed."""
