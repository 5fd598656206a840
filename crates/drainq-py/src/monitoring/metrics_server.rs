//! `MetricsServer`: the class that Python sees.

use super::endpoint_thread::Endpoint;
use crate::deadline::Deadline;
use crate::fork::{self, Renew};
use crate::{arguments, errors, gil, pickling};
use pyo3::prelude::*;
use pyo3::types::PyBool;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Weak};

/// An HTTP endpoint with the counters of this process, which answers also while a handler holds the GIL.
///
/// ``/metrics`` is Prometheus text, or OpenMetrics if the header ``Accept`` prefers it; ``/healthz`` answers ``ok`` if
/// the process lives. A native thread answers, and reads the counters without the GIL: those of batch queues, and of
/// the multi-queues and set queues that :func:`drainq.monitoring.watch` was given. It listens until :meth:`close`, or
/// to the end of the process; nothing has to hold the object. A forked child does not listen.
///
/// Args:
///     port: 0 to 65535; 0 takes a free port, and the property ``port`` is its number.
///     host: the address to listen at. There is no password: if other machines reach the address, anyone there can
///         read the counters and the names of queues.
/// Raises:
///     OSError: the port is taken, or the address is not one of this machine's.
///     ValueError: ``port`` is invalid, or ``host`` is no address.
///
/// As a context manager the server is closed at the end of the block.
///
/// Example:
///     >>> from urllib.request import urlopen
///     >>> from drainq import BatchQueue, BatchQueueConfig, ThreadPolicy
///     >>> from drainq.monitoring import MetricsServer
///     >>> config = BatchQueueConfig(threads=ThreadPolicy.fixed(1), consumer=lambda batch: None)
///     >>> with BatchQueue("hits", config) as queue, MetricsServer(port=0) as server:
///     ...     queue.produce_many([1, 2, 3]), queue.flush()
///     ...     text = urlopen(server.url).read().decode()
///     (3, True)
///     >>> 'drainq_batch_handled_total{queue="hits"} 3' in text
///     True
///
/// Source: ``start_http_server`` of prometheus_client; the native thread is drainq's.
#[pyclass(module = "drainq.monitoring", frozen, weakref)]
pub struct MetricsServer {
    endpoint: Arc<Endpoint>,
}

static RUN_ASIDE: gil::PythonFunction = gil::PythonFunction::of("drainq.threads", "run_aside");
static ENTERED: gil::PythonFunction = gil::PythonFunction::of("drainq.aio", "entered");

/// The port of OpenTelemetry's exporter for Prometheus.
const DEFAULT_PORT: u16 = 9464;

fn port_in(port: &Bound<'_, PyAny>) -> PyResult<u16> {
    match port.extract() {
        Ok(number) if !port.is_instance_of::<PyBool>() => Ok(number),
        _ => {
            let got = errors::shown(port);
            Err(errors::bad_value(format!("port must be a number from 0 (a free one) to 65535, got {got}")))
        }
    }
}

impl Renew for Endpoint {
    fn renew_in_child(&self, _py: Python<'_>) {
        self.forget_in_child();
    }
}

#[pymethods]
impl MetricsServer {
    #[new]
    #[pyo3(signature = (port=None, *, host="127.0.0.1".to_owned()), text_signature = "(port=9464, *, host='127.0.0.1')")]
    fn new(
        py: Python<'_>,
        port: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::host)] host: String,
    ) -> PyResult<Self> {
        let number = port.map_or(Ok(DEFAULT_PORT), port_in)?;
        // The lookup of a name may ask a server.
        let found = gil::released(py, || (host.as_str(), number).to_socket_addrs().map(Vec::from_iter));
        let addresses: Vec<SocketAddr> = found.unwrap_or_default();
        if addresses.is_empty() {
            return Err(errors::bad_value(format!(
                "host must be an address of this machine, such as '127.0.0.1', '::1' or '0.0.0.0', got {host:?}"
            )));
        }
        let endpoint = Arc::new(Endpoint::open(&addresses).map_err(|error| {
            let remedy = match error.kind() {
                ErrorKind::AddrInUse => "another program has the port: pass another port=, or port=0 for a free one",
                ErrorKind::AddrNotAvailable => "host= must be an address of this machine",
                ErrorKind::PermissionDenied => "a port below 1024 takes more rights: pass another port=",
                _ => "no endpoint was started",
            };
            errors::os_error(error.raw_os_error(), format!("cannot listen at {host}:{number}: {remedy} ({error})"))
        })?);
        fork::register(Arc::downgrade(&endpoint) as Weak<dyn Renew>);
        // Nothing has to hold the object: the endpoint lives until its close, or to the end of the process.
        std::mem::forget(endpoint.clone());
        Ok(Self { endpoint })
    }

    /// The port that it listens at.
    #[getter]
    fn port(&self) -> u16 {
        self.endpoint.address().port()
    }

    /// The URL of the counters, to scrape from this machine.
    #[getter]
    fn url(&self) -> String {
        format!("http://{}/metrics", self.endpoint.address_here())
    }

    /// Whether requests are answered: until the close, and not in a forked child.
    #[getter]
    fn running(&self) -> bool {
        self.endpoint.is_open()
    }

    /// Stop answering, and free the port. It may be called again.
    ///
    /// Args:
    ///     timeout: seconds to wait until the port is free; None: as long as it takes, which is a second at most.
    /// Returns:
    ///     False if the time ran out; the port is free soon after.
    /// Raises:
    ///     ValueError: ``timeout`` is negative or not a number.
    ///
    /// Example:
    ///     >>> from drainq.monitoring import MetricsServer
    ///     >>> MetricsServer(port=0).close(timeout=5)
    ///     True
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>) -> PyResult<bool> {
        let left = Deadline::after("timeout", timeout)?.left();
        let Some(rest) = self.endpoint.close() else { return Ok(true) };
        let late = gil::released(py, || rest(left));
        let in_time = late.is_none();
        late.into_iter().for_each(|open| self.endpoint.put_back(open));
        Ok(in_time)
    }

    /// Call :meth:`close` as a coroutine, on a thread. Cancelling it does not stop the close.
    #[pyo3(signature = (timeout=None))]
    fn close_async<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        RUN_ASIDE.call(slf.py(), (slf.getattr("close")?, timeout))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close(py, None).map(drop)
    }

    fn __aenter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        ENTERED.call(slf.py(), (slf,))
    }

    #[pyo3(signature = (*_exception))]
    fn __aexit__<'py>(slf: &Bound<'py, Self>, _exception: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        RUN_ASIDE.call(slf.py(), (slf.getattr("__exit__")?,))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        pickling::refuse(slf, "its socket belongs to this process", "its port, and make a MetricsServer there")
    }

    fn __repr__(&self) -> String {
        let state = if self.running() { "" } else { " closed" };
        format!("<MetricsServer {}{state}>", self.url())
    }
}
