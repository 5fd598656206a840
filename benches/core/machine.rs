//! Readings of the machine: processor time of a thread and of the process, memory in use.

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A text as JSON.
pub fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

fn clock_nanos(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec that lives through the call.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "the clock {clock} is there on every Linux and macOS");
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Processor time of this process so far, all threads, user and system, in ns.
pub fn process_cpu_nanos() -> f64 {
    clock_nanos(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread so far, in ns.
pub fn thread_cpu_nanos() -> f64 {
    clock_nanos(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Bytes that the process has from its allocator and has not given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn allocated_bytes() -> Option<f64> {
    // SAFETY: no argument; the call only reads the allocator's counters.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as f64)
}

/// Not known here.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn allocated_bytes() -> Option<f64> {
    None
}
