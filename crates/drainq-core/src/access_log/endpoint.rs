//! The endpoint of a request line: its path without the query.

/// The endpoint of a request without a path: a port scan, a TLS greeting, silence.
pub const NO_ENDPOINT: &[u8] = b"-";

/// Returns the path of `GET /path?query HTTP/1.1`, whose target may be a URL; [`NO_ENDPOINT`] if this is no request.
///
/// The path is a slice of the request, so no byte is copied.
pub fn endpoint_of(request: &[u8]) -> &[u8] {
    let Some(space) = memchr::memchr(b' ', request) else { return NO_ENDPOINT };
    let (method, mut target) = (&request[..space], &request[space + 1..]);
    if !is_alphabetic(method) {
        return NO_ENDPOINT;
    }
    if let Some(space) = memchr::memrchr(b' ', target)
        && target[space + 1..].starts_with(b"HTTP/")
    {
        target = &target[..space];
    }
    path_of(target)
}

/// Returns the path of a request's target, which may have a query or be a whole URL.
pub fn path_of(target: &[u8]) -> &[u8] {
    let path = if target.starts_with(b"/") { target } else { path_of_url(target).unwrap_or(target) };
    match before_query(path) {
        b"" => NO_ENDPOINT,
        path => path,
    }
}

/// Returns the path of `http://host/path`, or None if the target is no such URL.
fn path_of_url(target: &[u8]) -> Option<&[u8]> {
    let separator = memchr::memmem::find(target, b"://")?;
    if !is_alphabetic(&target[..separator]) {
        return None;
    }
    let rest = before_query(&target[separator + 3..]);
    Some(memchr::memchr(b'/', rest).map_or(b"/", |slash| &rest[slash..]))
}

fn before_query(target: &[u8]) -> &[u8] {
    &target[..memchr::memchr(b'?', target).unwrap_or(target.len())]
}

fn is_alphabetic(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_alphabetic)
}
