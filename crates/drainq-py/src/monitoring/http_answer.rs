//! The head of a request, and the answer to it: as much of HTTP/1.1 as a scrape needs.
//!
//! Each answer contains `Connection: close`. A body is not read: GET and HEAD have none. The head is read by
//! `httparse`, the parser of hyper.

use super::object_registry;
use super::prometheus_text::TextFormat;
use super::sample::Reading;
use crate::fork;

/// A request whose head is not complete after this many bytes is refused.
pub const LARGEST_HEAD: usize = 8192;

const INDEX: &str =
    "drainq\n\n/metrics  counters, as Prometheus text or OpenMetrics\n/healthz  whether this process answers";

/// An answer, to be written as bytes, or to be given to a web server that the program runs.
pub struct Answer {
    /// The code and the reason: `200 OK`.
    pub status: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Answer {
    fn new(status: &'static str, content_type: &str, body: String) -> Self {
        let headers = vec![
            ("Content-Type", content_type.to_owned()),
            ("Content-Length", body.len().to_string()),
            ("X-Content-Type-Options", "nosniff".to_owned()),
            ("Cache-Control", "no-store".to_owned()),
        ];
        Self { status, headers, body }
    }

    fn plain(status: &'static str, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    fn with(mut self, header: &'static str, value: &str) -> Self {
        self.headers.push((header, value.to_owned()));
        self
    }

    /// Returns this answer for `method`: for HEAD without the body. All methods but GET and HEAD get a refusal.
    fn to(self, method: &str) -> Self {
        match method {
            "GET" => self,
            "HEAD" => Self { body: String::new(), ..self },
            _ => Self::plain("405 Method Not Allowed", "only GET and HEAD are answered").with("Allow", "GET, HEAD"),
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        format!("HTTP/1.1 {}\r\n{headers}Connection: close\r\n\r\n{}", self.status, self.body).into_bytes()
    }
}

/// Returns the answer to a request for the counters, in the format that the header `Accept` prefers.
pub fn metrics(method: &str, accept: &str, reading: Reading) -> Answer {
    let format = format_for(accept);
    Answer::new("200 OK", format.content_type(), format.write(reading)).to(method)
}

/// Returns the answer to a request, of which these bytes have come; `None` until the head is complete.
pub fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let answer = match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => answer_to(&request),
        Ok(httparse::Status::Partial) if bytes.len() < LARGEST_HEAD => return None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            Answer::plain("431 Request Header Fields Too Large", "the head of a request may have 8192 bytes")
        }
        Err(wrong) => Answer::plain("400 Bad Request", &format!("this is no request of HTTP/1.1: {wrong}")),
    };
    Some(answer.into_bytes())
}

fn answer_to(request: &httparse::Request<'_, '_>) -> Answer {
    let method = request.method.unwrap_or_default();
    let target = request.path.unwrap_or_default();
    match target.split('?').next().unwrap_or_default() {
        "/metrics" => match fork::between_forks(object_registry::read_all) {
            Some(reading) => metrics(method, &accept(request), reading),
            None => {
                let refusal = Answer::plain("503 Service Unavailable", "the process forks at this moment");
                refusal.with("Retry-After", "1").to(method)
            }
        },
        "/healthz" => Answer::plain("200 OK", "ok").to(method),
        "/" => Answer::plain("200 OK", INDEX).to(method),
        _ => Answer::plain("404 Not Found", "there is /metrics and /healthz"),
    }
}

/// Returns the answer to a head that did not come in time.
pub fn too_slow() -> Vec<u8> {
    Answer::plain("408 Request Timeout", "the head of the request did not come in time").into_bytes()
}

/// Returns the values of the header `Accept`.
fn accept(request: &httparse::Request<'_, '_>) -> String {
    let values = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    values.map(|header| String::from_utf8_lossy(header.value)).collect::<Vec<_>>().join(",")
}

/// Returns the format that the header `Accept` prefers; Prometheus' own if it prefers none.
fn format_for(accept: &str) -> TextFormat {
    let weight_of = |kind: &str| {
        let weights = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            parts.next().filter(|name| name.eq_ignore_ascii_case(kind))?;
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse::<f64>().ok());
            weight.filter(|weight| weight.is_finite())
        });
        weights.fold(0.0, f64::max)
    };
    let open = weight_of("application/openmetrics-text");
    if open > 0.0 && open >= weight_of("text/plain") { TextFormat::OpenMetrics } else { TextFormat::Prometheus }
}
