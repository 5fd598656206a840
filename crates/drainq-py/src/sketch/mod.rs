//! `drainq.sketch.DDSketch`: the core's sketch as a Python object.
//!
//! # Invariants
//! 1. The lock is taken while the GIL is held, and released before the GIL. No Python code runs under the lock.
//! 2. Many values go into a sketch of their own first, without the lock, and are merged at the end. So a call that is
//!    refused, or whose iterable raises, has added nothing, and other threads may use the sketch meanwhile.
//! 3. A sketch is a value, like a list: the child of a fork has a copy.

mod values;

use crate::arguments;
use crate::pickling::{self, Recipe};
use crate::{core_errors, errors};
use drainq_core::sketch::{self as core, Buckets, Exponential, bytes};
use drainq_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

/// A sketch of the distribution of numbers, whose quantiles have a known relative error.
///
/// It counts values in buckets that grow by a fixed factor, so its size depends on the range of the values, not on
/// their number: a value costs nothing beyond its bucket's 8 bytes. Sketches of parts merge into the sketch
/// of the whole, in any order, exactly. Threads may share a sketch.
///
/// Args:
///     relative_accuracy: the largest relative error of a quantile, from 0.00001 to below 1; 0.01 unless given.
///     max_buckets: the most buckets for positive values, and for negative ones, from 1 to 1,048,576; ``None`` covers
///         128 powers of two (8,192 buckets, at the default accuracy). If the values span more, the smallest
///         magnitudes share the lowest bucket, ``collapsed`` is True, and the error of their quantiles has no bound.
///         Magnitudes within that span of the largest keep the guarantee.
/// Raises:
///     ValueError: an argument is out of its range.
///
/// Example:
///     >>> from drainq.sketch import DDSketch
///     >>> sketch = DDSketch(0.01)
///     >>> sketch.add_many(range(1, 1001))
///     >>> abs(sketch.quantile(0.99) - 990) <= 0.01 * 990
///     True
///     >>> sketch.count, sketch.min, sketch.max
///     (1000, 1.0, 1000.0)
///
/// Source: Masson, Rim, Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees",
/// VLDB 2019. The buckets are those of OpenTelemetry's exponential histogram: the coarsest scale that keeps the
/// accuracy.
#[pyclass(frozen, module = "drainq.sketch", weakref)]
pub struct DDSketch {
    sketch: Mutex<core::DDSketch>,
}

impl DDSketch {
    fn of(sketch: core::DDSketch) -> Self {
        Self { sketch: Mutex::new(sketch) }
    }

    /// Returns a copy of the sketch as it is now.
    pub fn copied(&self) -> core::DDSketch {
        self.sketch.lock().clone()
    }
}

#[pymethods]
impl DDSketch {
    #[new]
    #[pyo3(signature = (relative_accuracy=core::DEFAULT_ACCURACY, *, max_buckets=None))]
    fn new(
        #[pyo3(from_py_with = arguments::relative_accuracy)] relative_accuracy: f64,
        #[pyo3(from_py_with = arguments::max_buckets)] max_buckets: Option<i64>,
    ) -> PyResult<Self> {
        let refused_bound = |bound| {
            errors::bad_value(format!("max_buckets must be from 1 to {}, got {bound}", core::LARGEST_MAX_BUCKETS))
        };
        let max_buckets =
            max_buckets.map(|bound| u64::try_from(bound).map_err(|_| refused_bound(bound))).transpose()?;
        core::DDSketch::new(relative_accuracy, max_buckets).map(Self::of).map_err(core_errors::of_sketch)
    }

    /// Add a value.
    ///
    /// Args:
    ///     value: a finite number.
    ///     count: how often to add it, at least 1.
    /// Raises:
    ///     ValueError: ``value`` is NaN or infinite, or ``count`` is below 1.
    ///     TypeError: ``value`` is no number.
    #[pyo3(signature = (value, count=1))]
    fn add(&self, value: &Bound<'_, PyAny>, #[pyo3(from_py_with = arguments::count)] count: i64) -> PyResult<()> {
        let value = values::number("value", value)?;
        let count = u64::try_from(count)
            .ok()
            .filter(|count| *count > 0)
            .ok_or_else(|| errors::bad_value(format!("count must be at least 1, got {count}")))?;
        if !value.is_finite() {
            return Err(errors::bad_value(format!("value must be a finite number, got {value}")));
        }
        let refusal = self.sketch.lock().add_times(value, count);
        refusal.map_err(core_errors::of_sketch)
    }

    /// Add values, all of them or, if one is refused, none.
    ///
    /// The GIL is released while the values of an Arrow array or a buffer are added.
    ///
    /// Args:
    ///     values: finite numbers: an Arrow array (anything with ``__arrow_c_array__`` or ``__arrow_c_stream__``; nulls are
    ///         left out), a buffer of 64-bit or 32-bit floats (a NumPy array, an ``array.array``), or any
    ///         iterable of numbers.
    /// Raises:
    ///     ValueError: a value is NaN or infinite.
    ///     TypeError: ``values`` is no iterable, or a value is no number.
    ///
    /// Example:
    ///     >>> from array import array
    ///     >>> from drainq.sketch import DDSketch
    ///     >>> sketch = DDSketch()
    ///     >>> sketch.add_many(array("d", [0.5, 1.5]))
    ///     >>> sketch.add_many(value / 10 for value in range(10))
    ///     >>> sketch.count
    ///     12
    fn add_many(&self, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let empty = self.sketch.lock().emptied();
        let added = values::sketch_of(empty, values)?;
        let refusal = self.sketch.lock().merge(&added);
        refusal.map_err(core_errors::of_sketch)
    }

    /// Add all values of another sketch, which stays unchanged.
    ///
    /// Args:
    ///     other: a sketch of the same ``relative_accuracy`` and ``max_buckets``.
    /// Raises:
    ///     ValueError: the settings differ; nothing has changed.
    ///
    /// Example:
    ///     >>> from drainq.sketch import DDSketch
    ///     >>> fast, slow = DDSketch(), DDSketch()
    ///     >>> fast.add(0.1), slow.add(9.5)
    ///     (None, None)
    ///     >>> fast.merge(slow)
    ///     >>> fast.count, fast.max
    ///     (2, 9.5)
    fn merge(&self, other: &Bound<'_, Self>) -> PyResult<()> {
        let others = other.get().copied();
        let refusal = self.sketch.lock().merge(&others);
        refusal.map_err(core_errors::of_sketch)
    }

    /// Return the value of rank ``floor(q * (count - 1))`` in ascending order, as NumPy's ``method="lower"`` does.
    ///
    /// Args:
    ///     q: from 0 (the smallest value) to 1 (the largest); those two are exact.
    /// Returns:
    ///     A value whose relative error is at most ``relative_accuracy``; None without values.
    /// Raises:
    ///     ValueError: ``q`` is not from 0 to 1.
    fn quantile(&self, #[pyo3(from_py_with = arguments::q)] q: f64) -> PyResult<Option<f64>> {
        let found = self.sketch.lock().quantile(q);
        found.map_err(core_errors::of_sketch)
    }

    /// How many values were added.
    #[getter]
    fn count(&self) -> u64 {
        self.sketch.lock().count()
    }

    /// The sum of the values, rounded as a compensated sum of floats is; infinite if it is too large for a float.
    #[getter]
    fn sum(&self) -> f64 {
        self.sketch.lock().sum()
    }

    /// The smallest value, exactly; None without values.
    #[getter]
    fn min(&self) -> Option<f64> {
        self.sketch.lock().min()
    }

    /// The largest value, exactly; None without values.
    #[getter]
    fn max(&self) -> Option<f64> {
        self.sketch.lock().max()
    }

    /// The requested relative error. The buckets keep it or are finer.
    #[getter]
    fn relative_accuracy(&self) -> f64 {
        self.sketch.lock().settings().0
    }

    /// The most buckets for each sign.
    #[getter]
    fn max_buckets(&self) -> u32 {
        self.sketch.lock().settings().1
    }

    /// Whether small magnitudes had to share a bucket because the values span more than ``max_buckets``.
    #[getter]
    fn collapsed(&self) -> bool {
        self.sketch.lock().has_collapsed()
    }

    /// The scale of the buckets: each is ``2 ** (2 ** -scale)`` times as wide as the one before.
    #[getter]
    fn scale(&self) -> u8 {
        self.sketch.lock().scale()
    }

    /// Return the counts as an exponential histogram of OpenTelemetry's protocol.
    ///
    /// Args:
    ///     scale: the scale of the buckets, from -10 to the sketch's own; ``None`` is its own. A coarser
    ///         scale has fewer buckets, and the counts are exact there too.
    /// Raises:
    ///     ValueError: ``scale`` is out of its range.
    ///
    /// Example:
    ///     >>> from drainq.sketch import DDSketch
    ///     >>> sketch = DDSketch()
    ///     >>> sketch.add_many([0, 1.5, 3, 3.5])
    ///     >>> histogram = sketch.exponential(scale=0)
    ///     >>> histogram.zero_count, histogram.positive_offset, histogram.positive_counts
    ///     (1, 0, [1, 2])
    #[pyo3(signature = (scale=None))]
    fn exponential(
        &self,
        #[pyo3(from_py_with = arguments::scale)] scale: Option<i64>,
    ) -> PyResult<ExponentialHistogram> {
        let sketch = self.copied();
        let wanted = match scale {
            None => i32::from(sketch.scale()),
            Some(scale) => i32::try_from(scale)
                .map_err(|_| errors::bad_value(format!("scale must be from -10 to {}, got {scale}", sketch.scale())))?,
        };
        sketch.exponential(wanted).map(ExponentialHistogram::of).map_err(core_errors::of_sketch)
    }

    /// Return the sketch as bytes, for ``from_bytes``. Those of equal sketches may differ in the last bits of the sum.
    ///
    /// Example:
    ///     >>> from drainq.sketch import DDSketch
    ///     >>> sketch = DDSketch()
    ///     >>> sketch.add(2.5)
    ///     >>> DDSketch.from_bytes(sketch.to_bytes()) == sketch
    ///     True
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &bytes::encode(&self.copied()))
    }

    /// Return the sketch that was converted to these bytes.
    ///
    /// Args:
    ///     data: the result of ``to_bytes``.
    /// Raises:
    ///     ValueError: the bytes are no sketch, or were cut off or changed.
    ///     TypeError: ``data`` is not ``bytes``.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(data) = data.cast::<PyBytes>() else {
            return Err(errors::bad_type(format!("data must be bytes, got {}", errors::shown(data))));
        };
        bytes::decode(data.as_bytes()).map(Self::of).map_err(core_errors::of_sketch)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().copied() == self.copied())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Recipe<'py>> {
        pickling::made_by(slf, "from_bytes", (slf.get().to_bytes(slf.py()),))
    }

    fn __repr__(&self) -> String {
        let sketch = self.copied();
        let range = match (sketch.min(), sketch.max()) {
            (Some(min), Some(max)) => format!(" from {min:?} to {max:?}"),
            _ => String::new(),
        };
        format!("<DDSketch of {} values{range}, relative accuracy {:?}>", sketch.count(), sketch.settings().0)
    }
}

/// The counts of a ``DDSketch`` by bucket, as OpenTelemetry's protocol has them: made by ``DDSketch.exponential``.
///
/// The bucket of the magnitudes in ``(base ** i, base ** (i + 1)]`` has the index ``i``, with ``base = 2 ** (2 **
/// -scale)``.
///
/// Attributes:
///     scale: of the buckets.
///     zero_count: values that are 0.
///     positive_offset: the index of the first bucket of ``positive_counts``; 0 if there is none.
///     positive_counts: the counts of values above 0, by bucket.
///     negative_offset: the index of the first bucket of ``negative_counts``; 0 if there is none.
///     negative_counts: the counts of values below 0, by bucket of their magnitude.
///
/// Source: "ExponentialHistogram" in OpenTelemetry's data model for metrics.
#[pyclass(frozen, module = "drainq.sketch", get_all)]
pub struct ExponentialHistogram {
    scale: i32,
    zero_count: u64,
    positive_offset: i32,
    positive_counts: Vec<u64>,
    negative_offset: i32,
    negative_counts: Vec<u64>,
}

impl ExponentialHistogram {
    fn of(found: Exponential) -> Self {
        let Exponential { scale, zeros, positive, negative } = found;
        let Buckets { offset: positive_offset, counts: positive_counts } = positive;
        let Buckets { offset: negative_offset, counts: negative_counts } = negative;
        Self { scale, zero_count: zeros, positive_offset, positive_counts, negative_offset, negative_counts }
    }
}

#[pymethods]
impl ExponentialHistogram {
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "only a DDSketch makes one", "the sketch, and call exponential() where it is used")
    }

    fn __repr__(&self) -> String {
        format!(
            "<ExponentialHistogram of scale {}: {} positive buckets, {} negative ones, {} zeros>",
            self.scale,
            self.positive_counts.len(),
            self.negative_counts.len(),
            self.zero_count
        )
    }
}
