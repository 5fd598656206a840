//! The contents of `sync` under shuttle, which runs random schedules.

modelled!(shuttle);

#[cfg(test)]
pub(crate) fn model(_preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let schedules =
        std::env::var("DRAINQ_SCHEDULES").map_or(200, |count| count.parse().expect("a number of schedules"));
    shuttle::check_random(test, schedules);
}
