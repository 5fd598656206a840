//! The way of an item from a produce call into its partition.
//!
//! ```text
//!          head              tail         fast_until      head + capacity / 4        head + capacity
//!   --------+-----------------+---------------+--------------------+-----------------------+------> slots
//!    taken  | items           | fast path     | a call that checks: it moves fast_until up to the limit
//! ```
//!
//! A produce call must know that the ring is open, that the next slot is free and allocated, and that the drain thread
//! is awake. A call that has checked this stores in `fast_until` the tail up to which the result holds: at most a
//! quarter of the capacity above the head (the limit), and not beyond the segment. While `tail < fast_until`, the next
//! calls check nothing else: they store the item and the new tail. One producer at a time holds the GIL, so a claim
//! needs no compare-and-swap. A close, or a drain thread that falls asleep, makes the result wrong; both set
//! `fast_until` to 0, with the GIL held.
//!
//! | step | taken when | file |
//! | --- | --- | --- |
//! | 1. raw method | always: CPython calls it | `raw_method.rs` |
//! | 2. fast path | the class, or the dispatch key's value, has a route in the cache, and `tail < fast_until` | `fast_path.rs`, `route_cache.rs` |
//! | 3. cached route | the class, or the dispatch key's value, has a route; wakes the drain thread, reopens the fast path | `fast_path.rs` |
//! | 4. slow path | a new name, a user's selector or weight, a full or closed partition | `slow_path.rs` |
//!
//! If a partition is full, `wait_for_room.rs` waits, and checks for Ctrl-C meanwhile.
//!
//! `many.rs` takes the same steps for a list; `gil_yield.rs` gives up the GIL for a drain thread before a partition is
//! full.

pub mod attempt;
pub mod fast_path;
pub mod gil_yield;
pub mod many;
pub mod methods;
pub mod raw_method;
pub mod route_cache;
pub mod slow_path;
pub mod wait_for_room;
