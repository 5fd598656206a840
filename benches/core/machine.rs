//! What ran the figures, and what its clocks say: processor time of a thread and of the process, memory in use.

use std::fmt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processor, cores, commit, load.
pub struct Machine {
    processor: String,
    cores: usize,
    system: String,
    rust: String,
    commit: String,
    at: u64,
    load_before: f64,
}

impl Machine {
    pub fn now() -> Self {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find(|line| line.starts_with("model name"));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let changed = !output("git", &["status", "--porcelain", "--untracked-files=no"]).is_empty();
        Self {
            processor: model
                .and_then(|line| line.split_once(": "))
                .map_or(std::env::consts::ARCH, |at| at.1)
                .to_owned(),
            cores: cores(),
            system: output("uname", &["-sr"]),
            rust: output("rustc", &["--version"]),
            commit: output("git", &["rev-parse", "--short", "HEAD"]) + if changed { "+" } else { "" },
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            load_before: load.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0),
        }
    }

    pub fn json(&self) -> String {
        let texts =
            [("processor", &self.processor), ("system", &self.system), ("rust", &self.rust), ("commit", &self.commit)];
        let texts: Vec<String> = texts.iter().map(|(name, text)| format!("\"{name}\": {}", quoted(text))).collect();
        format!(
            "{{{}, \"cores\": {}, \"at\": {}, \"load_before\": {}}}",
            texts.join(", "),
            self.cores,
            self.at,
            self.load_before
        )
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, system, rust, commit, load_before, .. } = self;
        write!(out, "{processor}, {cores} cores, {system}, {rust}, commit {commit}, load before {load_before}")
    }
}

/// Cores that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn output(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output();
    done.map_or(String::new(), |done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
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
