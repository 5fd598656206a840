//! Statistics as Python objects: `drainq/statistics.py` makes them from the counters of the core.

use crate::gil::PythonFunction;

pub static BATCH_QUEUE: PythonFunction = PythonFunction::of("drainq.statistics", "batch_queue");
pub static MULTI_QUEUE: PythonFunction = PythonFunction::of("drainq.statistics", "multi_queue");
pub static SET_QUEUE: PythonFunction = PythonFunction::of("drainq.statistics", "SetQueueStats");
pub static SUB_QUEUE: PythonFunction = PythonFunction::of("drainq.statistics", "SubQueueStats");
