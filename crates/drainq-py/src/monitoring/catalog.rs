//! Every metric family of drainq, written once: the endpoint, the documents and the dashboard agree with this table.
//!
//! Names follow Prometheus: `drainq_`, the kind of object, what is counted, the unit if it is not items. A counter's
//! samples end in `_total`, which is not part of the family's name.

use drainq_core::batch::Outcome;

/// The meaning of a family's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Grows until the object ends.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of values by upper bound.
    Histogram,
}

impl FamilyKind {
    /// Returns the name of the kind in the text formats.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The samples of one name.
pub struct MetricFamily {
    /// The name, without the `_total` of a counter's samples.
    pub name: &'static str,
    pub kind: FamilyKind,
    /// The names of the labels of each sample.
    pub labels: &'static [&'static str],
    help: &'static str,
}

impl MetricFamily {
    /// Returns the meaning of the values, in one sentence.
    pub fn help(&self) -> &'static str {
        self.help.trim()
    }

    /// Returns the name of the samples.
    pub fn sample_name(&self) -> String {
        match self.kind {
            FamilyKind::Counter => format!("{}_total", self.name),
            FamilyKind::Gauge | FamilyKind::Histogram => self.name.to_owned(),
        }
    }

    /// Returns the base unit that the name ends with.
    pub fn unit(&self) -> Option<&'static str> {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(unit))
    }
}

macro_rules! families {
    (
        $(#[doc = $help:literal] $id:ident: $kind:ident $name:literal [$($label:literal),*])*
        outcomes {$(#[doc = $outcome_help:literal] $outcome:ident $counter:ident,)*}
        $(#[doc = $later_help:literal] $later_id:ident: $later_kind:ident $later_name:literal [$($later_label:literal),*])*
    ) => {
        /// The number of a family in [`FAMILIES`]. The family of a batch queue's outcome has the outcome's name here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FamilyId { $(#[doc = $help] $id,)* $(#[doc = $outcome_help] $outcome,)* $(#[doc = $later_help] $later_id),* }

        /// All families, in the order of the endpoint's answer.
        pub static FAMILIES: &[MetricFamily] = &[
            $(MetricFamily { name: $name, kind: FamilyKind::$kind, labels: &[$($label),*], help: $help },)*
            $(MetricFamily {
                name: concat!("drainq_batch_", stringify!($counter)),
                kind: FamilyKind::Counter,
                labels: &["queue"],
                help: $outcome_help,
            },)*
            $(MetricFamily {
                name: $later_name, kind: FamilyKind::$later_kind, labels: &[$($later_label),*], help: $later_help,
            }),*
        ];

        const IDS: &[FamilyId] = &[$(FamilyId::$id,)* $(FamilyId::$outcome,)* $(FamilyId::$later_id),*];

        impl FamilyId {
            /// Returns the family that counts the items of an outcome.
            pub fn of_outcome(outcome: Outcome) -> Self {
                match outcome {
                    $(Outcome::$outcome => Self::$outcome),*
                }
            }
        }
    };
}

macro_rules! all_families {
    ($($outcomes:tt)*) => {
        families! {
            /// The version of drainq. The value is 1.
            Build: Gauge "drainq_build_info" ["version"]
            /// Whether the queue accepts items: 1, or 0 after its close.
            BatchRunning: Gauge "drainq_batch_running" ["queue"]
            /// Items accepted.
            BatchAccepted: Counter "drainq_batch_accepted" ["queue"]
            /// Items rejected: full, closed, would_deadlock.
            BatchRejected: Counter "drainq_batch_rejected" ["queue", "reason"]
            outcomes { $($outcomes)* }
            /// Items that a shutdown gave up on when its time was over.
            BatchAbandoned: Counter "drainq_batch_abandoned" ["queue"]
            /// Items accepted whose handler call has not returned.
            BatchQueued: Gauge "drainq_batch_queued" ["queue"]
            /// Items that fit into all partitions.
            BatchCapacity: Gauge "drainq_batch_capacity" ["queue"]
            /// Memory of the partitions' buffers.
            BatchBufferBytes: Gauge "drainq_batch_buffer_bytes" ["queue"]
            /// Plans of the balancer that were carried out.
            BatchRebalances: Counter "drainq_batch_rebalances" ["queue"]
            /// Times that a producer gave up the GIL for a drain thread.
            BatchGilYields: Counter "drainq_batch_gil_yields" ["queue"]
            /// Time for which drain threads waited for the GIL.
            BatchGilWait: Counter "drainq_batch_gil_wait_seconds" ["queue"]
            /// Times that a drain thread waited for the GIL.
            BatchGilWaits: Counter "drainq_batch_gil_waits" ["queue"]
            /// Time that a handler call took, an error handler's included.
            BatchHandlerTime: Histogram "drainq_batch_handler_seconds" ["queue"]
            /// Items that a handler call got.
            BatchSize: Histogram "drainq_batch_size" ["queue"]
            /// Items in the partition.
            BatchPartitionUsed: Gauge "drainq_batch_partition_used" ["queue", "partition"]
            /// The number of the drain thread that owns the partition.
            BatchPartitionOwner: Gauge "drainq_batch_partition_owner" ["queue", "partition"]
            /// Items that the drain thread handled.
            BatchThreadHandled: Counter "drainq_batch_thread_handled" ["queue", "thread"]
            /// Passes of the drain thread that found items.
            BatchThreadPasses: Counter "drainq_batch_thread_passes" ["queue", "thread"]
            /// Time that the drain thread spent in passes, handler calls included.
            BatchThreadBusy: Counter "drainq_batch_thread_busy_seconds" ["queue", "thread"]
            /// Items taken by the drain thread whose handler call has not returned.
            BatchThreadInFlight: Gauge "drainq_batch_thread_in_flight" ["queue", "thread"]
            /// Items in all sub-queues.
            MultiDepth: Gauge "drainq_multi_depth" ["queue"]
            /// The largest depth so far.
            MultiHighWater: Gauge "drainq_multi_high_water" ["queue"]
            /// Items accepted.
            MultiPut: Counter "drainq_multi_put" ["queue"]
            /// Items handed to getters.
            MultiGot: Counter "drainq_multi_got" ["queue"]
            /// Items refused: no room in time, shut down, removed, or interrupted.
            MultiRejected: Counter "drainq_multi_rejected" ["queue"]
            /// Items taken out by other calls than a get.
            MultiRemoved: Counter "drainq_multi_removed" ["queue"]
            /// Time that the oldest head has waited; 0 if all sub-queues are empty.
            MultiOldestAge: Gauge "drainq_multi_oldest_age_seconds" ["queue"]
            /// Threads and tasks that wait for room.
            MultiBlockedPutters: Gauge "drainq_multi_blocked_putters" ["queue"]
            /// Threads and tasks that wait for an item.
            MultiBlockedGetters: Gauge "drainq_multi_blocked_getters" ["queue"]
            /// Sub-queues; samples with the label sub_queue exist for the first 1000.
            MultiSubQueues: Gauge "drainq_multi_sub_queues" ["queue"]
            /// Items in the sub-queue.
            SubQueueDepth: Gauge "drainq_multi_sub_queue_depth" ["queue", "sub_queue"]
            /// Items that the sub-queue accepted.
            SubQueuePut: Counter "drainq_multi_sub_queue_put" ["queue", "sub_queue"]
            /// Items of the sub-queue handed to getters.
            SubQueueGot: Counter "drainq_multi_sub_queue_got" ["queue", "sub_queue"]
            /// Items that the sub-queue refused.
            SubQueueRejected: Counter "drainq_multi_sub_queue_rejected" ["queue", "sub_queue"]
            /// Time that the head of the sub-queue has waited; 0 if it is empty.
            SubQueueOldestAge: Gauge "drainq_multi_sub_queue_oldest_age_seconds" ["queue", "sub_queue"]
            /// Items that wait in the set queue.
            SetSize: Gauge "drainq_set_size" ["queue"]
            /// Items taken and not yet done.
            SetInFlight: Gauge "drainq_set_in_flight" ["queue"]
            /// Items that went in.
            SetPut: Counter "drainq_set_put" ["queue"]
            /// Items that came out.
            SetGot: Counter "drainq_set_got" ["queue"]
            /// Items refused because an equal one was known.
            SetDuplicates: Counter "drainq_set_duplicates" ["queue"]
            /// Threads and tasks that wait for an item.
            SetBlockedGetters: Gauge "drainq_set_blocked_getters" ["queue"]
            /// Threads and tasks that wait for room.
            SetBlockedPutters: Gauge "drainq_set_blocked_putters" ["queue"]
            /// Messages that are due.
            DelayedReady: Gauge "drainq_delayed_ready" ["queue"]
            /// Messages that become due later.
            DelayedScheduled: Gauge "drainq_delayed_scheduled" ["queue"]
            /// Messages under a lease.
            DelayedInFlight: Gauge "drainq_delayed_in_flight" ["queue"]
            /// Time for which the longest waiting message has been due.
            DelayedOldestReadyAge: Gauge "drainq_delayed_oldest_ready_age_seconds" ["queue"]
            /// Messages in the queue that were delivered more than once.
            DelayedRedelivered: Gauge "drainq_delayed_redelivered" ["queue"]
            /// Dead letters.
            DelayedDead: Gauge "drainq_delayed_dead" ["queue"]
            /// Whether the queue is paused: 1 or 0.
            DelayedPaused: Gauge "drainq_delayed_paused" ["queue"]
            /// Messages of queues with the same name and another codec, which this queue never delivers.
            DelayedElsewhere: Gauge "drainq_delayed_elsewhere" ["queue"]
            /// Messages that are due because their lease has ended without an answer of their consumer.
            DelayedExpired: Gauge "drainq_delayed_expired" ["queue"]
            /// Time for which a consumer has held a message longest.
            DelayedLongestHeld: Gauge "drainq_delayed_longest_held_seconds" ["queue"]
            /// Messages that offers and schedules of this process stored, replacements included.
            DelayedOffered: Counter "drainq_delayed_offered" ["queue"]
            /// Messages that an offer of this process gave a new payload or time.
            DelayedReplaced: Counter "drainq_delayed_replaced" ["queue"]
            /// Deliveries to this process.
            DelayedDelivered: Counter "drainq_delayed_delivered" ["queue"]
            /// Messages deleted by an acknowledgement of this process.
            DelayedAcknowledged: Counter "drainq_delayed_acknowledged" ["queue"]
            /// Deliveries that this process gave back with an error, as when a handler raises.
            DelayedFailed: Counter "drainq_delayed_failed" ["queue"]
            /// Deliveries that this process gave back to be tried again.
            DelayedRetried: Counter "drainq_delayed_retried" ["queue"]
            /// Messages that this process made dead letters.
            DelayedBuried: Counter "drainq_delayed_buried" ["queue"]
            /// Acknowledgements of this process that came too late.
            DelayedLost: Counter "drainq_delayed_lost" ["queue"]
            /// Checks of schedules in this process that raised.
            DelayedScheduleErrors: Counter "drainq_delayed_schedule_errors" ["queue"]
            /// Time from a message's due time, or its later offer, to its first delivery, in this process.
            DelayedLateness: Histogram "drainq_delayed_lateness_seconds" ["queue"]
            /// Time that a call of the handler of this process took.
            DelayedHandlerTime: Histogram "drainq_delayed_handler_seconds" ["queue"]
            /// Items that the worker took in.
            WorkerAccepted: Counter "drainq_worker_accepted" ["worker"]
            /// Items that the worker passed on.
            WorkerSent: Counter "drainq_worker_sent" ["worker"]
            /// Attempts to pass an item on that were made again.
            WorkerRetried: Counter "drainq_worker_retried" ["worker"]
            /// Items that the other side or the worker itself refused.
            WorkerRefused: Counter "drainq_worker_refused" ["worker"]
            /// Items that the worker gave to a delayed queue.
            WorkerDeadLettered: Counter "drainq_worker_dead_lettered" ["worker"]
            /// Items that the worker gave up. A late answer may still make them sent.
            WorkerLost: Gauge "drainq_worker_lost" ["worker"]
            /// Items that are queued, being sent, or held until the next flush.
            WorkerPending: Gauge "drainq_worker_pending" ["worker"]
            /// Items in the source's buffer.
            SourceSize: Gauge "drainq_source_size" ["source"]
            /// Items that the source's buffer may hold.
            SourceCapacity: Gauge "drainq_source_capacity" ["source"]
            /// Items taken from the source and not yet done.
            SourceInFlight: Gauge "drainq_source_in_flight" ["source"]
            /// Items that the wrapped source returned.
            SourceFetched: Counter "drainq_source_fetched" ["source"]
            /// Items of the wrapped source refused because an equal one was known.
            SourceDuplicates: Counter "drainq_source_duplicates" ["source"]
            /// Refills, failed ones included.
            SourceRefills: Counter "drainq_source_refills" ["source"]
            /// Refills for which the wrapped source had nothing.
            SourceEmptyRefills: Counter "drainq_source_empty_refills" ["source"]
            /// Errors of the wrapped source and of the callables around it.
            SourceErrors: Counter "drainq_source_errors" ["source"]
            /// Pulls that found nothing while a refill was running.
            SourceStarvedPulls: Counter "drainq_source_starved_pulls" ["source"]
            /// Steps of the scheduler.
            SchedulerSteps: Counter "drainq_scheduler_steps" ["scheduler"]
            /// Whether the backlog was too large at the last step: 1 or 0.
            SchedulerPaused: Gauge "drainq_scheduler_paused" ["scheduler"]
            /// Items of the source that the target took.
            SchedulerMoved: Counter "drainq_scheduler_moved" ["scheduler", "source"]
            /// Items of the source on which the target raised.
            SchedulerFailed: Counter "drainq_scheduler_failed" ["scheduler", "source"]
            /// Times that the source raised.
            SchedulerErrors: Counter "drainq_scheduler_errors" ["scheduler", "source"]
            /// Age of the samples of an object whose counters only Python code knows.
            SampleAge: Gauge "drainq_sample_age_seconds" ["kind", "name"]
            /// Times that the counters of such an object could not be read.
            SampleErrors: Counter "drainq_sample_errors" ["kind", "name"]
        }
    };
}

drainq_core::for_each_outcome!(all_families);

impl FamilyId {
    /// Returns the family of this number.
    pub fn family(self) -> &'static MetricFamily {
        &FAMILIES[self as usize]
    }

    /// Returns the number of the family with this name.
    pub fn find(name: &str) -> Option<Self> {
        IDS.iter().copied().find(|id| id.family().name == name)
    }
}
