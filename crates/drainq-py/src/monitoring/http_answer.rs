//! The head of a request, and the answer to it: as much of HTTP/1.1 as a scrape needs.
//!
//! Each answer says `Connection: close`. A body is not read: GET and HEAD have none. The `httparse` crate reads the
//! head; it is the parser of hyper.

use super::object_registry;
use super::prometheus_text::TextFormat;
use crate::fork;

/// A request with a larger head is refused.
pub const LARGEST_HEAD: usize = 8192;

const INDEX: &str =
    "drainq\n\n/metrics  counters, as Prometheus text or OpenMetrics\n/healthz  whether this process answers\n";

/// Returns the answer to a request, of which these bytes have come; `None` until the head is complete.
pub fn answer(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Complete(_)) => Some(answer_to(&request)),
        Ok(httparse::Status::Partial) if bytes.len() < LARGEST_HEAD => None,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => Some(too_large()),
        Err(wrong) => Some(refusal("400 Bad Request", &format!("this is no request of HTTP/1.1: {wrong}"), "")),
    }
}

fn answer_to(request: &httparse::Request<'_, '_>) -> Vec<u8> {
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return refusal("405 Method Not Allowed", "only GET and HEAD are answered", "Allow: GET, HEAD\r\n"),
    };
    let plain = "text/plain; charset=utf-8";
    let target = request.path.unwrap_or_default();
    match target.split('?').next().unwrap_or_default() {
        "/metrics" => {
            let format = format_for(&accept(request));
            match fork::between_forks(object_registry::read_all) {
                Some(reading) => response("200 OK", format.content_type(), "", &format.write(reading), is_head),
                None => {
                    let later = "Retry-After: 1\r\n";
                    response("503 Service Unavailable", plain, later, "the process forks at this moment\n", is_head)
                }
            }
        }
        "/healthz" => response("200 OK", plain, "", "ok\n", is_head),
        "/" => response("200 OK", plain, "", INDEX, is_head),
        _ => refusal("404 Not Found", "there is /metrics and /healthz", ""),
    }
}

fn too_large() -> Vec<u8> {
    refusal("431 Request Header Fields Too Large", "the head of a request may have 8192 bytes", "")
}

/// Returns the answer to a head that did not come in time.
pub fn too_slow() -> Vec<u8> {
    refusal("408 Request Timeout", "the head of the request did not come in time", "")
}

fn refusal(status: &str, reason: &str, headers: &str) -> Vec<u8> {
    response(status, "text/plain; charset=utf-8", headers, &format!("{reason}\n"), false)
}

fn response(status: &str, content_type: &str, headers: &str, body: &str, is_head: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nX-Content-Type-Options: nosniff\r\n\
         Cache-Control: no-store\r\n{headers}Connection: close\r\n\r\n",
        body.len()
    );
    (head + if is_head { "" } else { body }).into_bytes()
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
