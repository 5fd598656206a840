//! How many threads and partitions: rules that turn into numbers when a queue is made.
//!
//! Source: `ThreadPolicy` and `PartitionPolicy` in SkyWalking's `library-batch-queue`.

use crate::sync::plain::available_parallelism;

/// Drain threads of one queue or scheduler at most: a thread number has 16 bits.
pub const MAX_THREADS: usize = 4_096;
/// Partitions of one queue at most.
pub const MAX_PARTITIONS: usize = 1 << 20;

/// By how much a sum of weights may be off without being a partition more: the sum of ten times 1.1 is 11.000000000000002.
const ROUNDING: f64 = 1e-6;

/// Partitions per thread up to which each unit of handler weight gets a partition.
pub const ADAPTIVE_MULTIPLIER: usize = 25;

/// How many drain threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThreadPolicy {
    /// This many.
    Fixed(usize),
    /// This many per core.
    CpuCores(f64),
    /// A number, and this many more per core.
    CpuCoresWithBase(usize, f64),
}

fn check_threads(name: &str, count: usize) -> Result<(), String> {
    if (1..=MAX_THREADS).contains(&count) {
        return Ok(());
    }
    Err(format!("{name} must be between 1 and {MAX_THREADS} threads, got {count}"))
}

impl ThreadPolicy {
    /// Asks for exactly `count` threads.
    pub fn fixed(count: usize) -> Result<Self, String> {
        check_threads("count", count).map(|()| Self::Fixed(count))
    }

    /// Asks for `multiplier` threads per core.
    pub fn cpu_cores(multiplier: f64) -> Result<Self, String> {
        if multiplier.is_finite() && multiplier > 0.0 {
            return Ok(Self::CpuCores(multiplier));
        }
        Err(format!("multiplier must be greater than 0 threads per core, got {multiplier}"))
    }

    /// Asks for `base` threads and `multiplier` more per core.
    pub fn cpu_cores_with_base(base: usize, multiplier: f64) -> Result<Self, String> {
        if !(multiplier.is_finite() && multiplier >= 0.0) {
            return Err(format!("multiplier must be at least 0 threads per core, got {multiplier}"));
        }
        if base == 0 && multiplier == 0.0 {
            return Err("base and multiplier must not both be 0: that would be no thread, got 0 and 0.0".into());
        }
        if base > MAX_THREADS {
            return Err(format!("base must be at most {MAX_THREADS} threads, got {base}"));
        }
        Ok(Self::CpuCoresWithBase(base, multiplier))
    }

    /// Returns the number of threads on a machine with this many cores; at least one.
    pub fn resolve_for(self, cores: usize) -> usize {
        let scaled = |multiplier: f64| (multiplier * cores as f64).round() as usize;
        let count = match self {
            Self::Fixed(count) => count,
            Self::CpuCores(multiplier) => scaled(multiplier),
            Self::CpuCoresWithBase(base, multiplier) => base + scaled(multiplier),
        };
        count.clamp(1, MAX_THREADS)
    }

    /// Returns the number of threads here.
    pub fn resolve(self) -> usize {
        self.resolve_for(available_parallelism().map_or(1, usize::from))
    }
}

/// How many partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionPolicy {
    /// This many.
    Fixed(usize),
    /// This many per thread.
    ThreadMultiply(usize),
    /// One per unit of handler weight up to this many per thread, and half a partition for each unit above.
    Adaptive(usize),
}

fn check_partitions(name: &str, count: usize) -> Result<(), String> {
    if (1..=MAX_PARTITIONS).contains(&count) {
        return Ok(());
    }
    Err(format!("{name} must be between 1 and {MAX_PARTITIONS}, got {count}"))
}

impl PartitionPolicy {
    /// Asks for exactly `count` partitions.
    pub fn fixed(count: usize) -> Result<Self, String> {
        check_partitions("count", count).map(|()| Self::Fixed(count))
    }

    /// Asks for `multiplier` partitions per thread.
    pub fn thread_multiply(multiplier: usize) -> Result<Self, String> {
        check_partitions("multiplier", multiplier).map(|()| Self::ThreadMultiply(multiplier))
    }

    /// Asks for as many partitions as the handlers need by their weights.
    pub fn adaptive(multiplier: usize) -> Result<Self, String> {
        check_partitions("multiplier", multiplier).map(|()| Self::Adaptive(multiplier))
    }

    /// Returns the number of partitions for this number of threads and sum of handler weights; at least one.
    pub fn resolve(self, threads: usize, weight: f64) -> usize {
        let count = match self {
            Self::Fixed(count) => count,
            Self::ThreadMultiply(multiplier) => threads.saturating_mul(multiplier),
            Self::Adaptive(multiplier) => {
                let wanted = (weight - ROUNDING).max(0.0).ceil() as usize;
                let threshold = threads.saturating_mul(multiplier);
                match wanted {
                    0 => threads,
                    _ if wanted <= threshold => wanted,
                    _ => threshold + (wanted - threshold) / 2,
                }
            }
        };
        count.clamp(1, MAX_PARTITIONS)
    }
}

#[cfg(all(test, not(any(loom, drainq_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn threads_follow_the_cores() {
        assert_eq!(ThreadPolicy::fixed(3).unwrap().resolve_for(8), 3);
        assert_eq!(ThreadPolicy::cpu_cores(0.5).unwrap().resolve_for(8), 4);
        assert_eq!(ThreadPolicy::cpu_cores(0.01).unwrap().resolve_for(8), 1, "never none");
        assert_eq!(ThreadPolicy::cpu_cores_with_base(1, 0.25).unwrap().resolve_for(8), 3);
    }

    #[test]
    fn nonsense_is_refused_with_the_value() {
        for refused in [
            ThreadPolicy::fixed(0),
            ThreadPolicy::cpu_cores(0.0),
            ThreadPolicy::cpu_cores(f64::NAN),
            ThreadPolicy::cpu_cores_with_base(0, 0.0),
            ThreadPolicy::cpu_cores_with_base(0, -1.0),
        ] {
            assert!(refused.unwrap_err().contains("got"));
        }
        assert!(PartitionPolicy::fixed(0).unwrap_err().ends_with("got 0"));
        assert!(PartitionPolicy::thread_multiply(0).is_err());
        assert!(PartitionPolicy::adaptive(0).is_err());
    }

    #[test]
    fn adaptive_is_one_to_one_up_to_the_threshold_and_half_above() {
        let policy = PartitionPolicy::adaptive(25).unwrap();
        let cases = [
            (8, 0.0, 8),
            (8, 1.0, 1),
            (8, 200.0, 200),
            (8, 201.0, 200),
            (8, 500.0, 350),
            (8, 0.3, 1),
            (8, [1.1; 10].iter().sum(), 11),
        ];
        for (threads, weight, expected) in cases {
            assert_eq!(policy.resolve(threads, weight), expected, "{threads} threads, weight {weight}");
        }
        assert_eq!(PartitionPolicy::thread_multiply(3).unwrap().resolve(4, 99.0), 12);
        assert_eq!(PartitionPolicy::fixed(7).unwrap().resolve(4, 99.0), 7);
    }
}
