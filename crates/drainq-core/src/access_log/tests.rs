//! Tests single steps of the reader. Tests in Python compare the reader with the rules, line by line.

use super::endpoint::endpoint_of;
use super::line::{LastStamp, Reason, parse};
use super::records::Records;
use super::stamp::second_of;

const LINE: &[u8] = br#"10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET /a?b HTTP/1.1" 200 17 "-" "curl/8" 0.042"#;

#[test]
fn a_line_has_its_fields() {
    let record = parse(LINE, &mut LastStamp::default()).expect("a record");
    assert_eq!((record.client, record.endpoint), (&b"10.0.0.1"[..], &b"/a"[..]));
    assert_eq!((record.second, record.status, record.size), (1_431_857_103, 200, 17));
    assert_eq!(
        (record.referrer, record.agent, record.milliseconds),
        (Some(&b"-"[..]), Some(&b"curl/8"[..]), Some(42.0))
    );
}

#[test]
fn every_beginning_of_a_line_is_a_record_or_has_a_reason() {
    for length in 0..LINE.len() {
        match parse(&LINE[..length], &mut LastStamp::default()) {
            Ok(record) => assert_eq!(record.client, b"10.0.0.1"),
            Err(reason) => assert!(!reason.text().is_empty()),
        }
    }
}

#[test]
fn seconds_count_from_1970_in_every_year() {
    let mut day = second_of(b"01/Jan/0001:00:00:00 +0000").expect("a time");
    assert_eq!(day, -62_135_596_800);
    for year in 1..=9999 {
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        for month in months {
            for number in 1..=31 {
                let stamp = format!("{number:02}/{month}/{year:04}:00:00:00 +0000");
                let Some(second) = second_of(stamp.as_bytes()) else { continue };
                assert_eq!(second, day, "{stamp}");
                day += 86_400;
            }
        }
    }
    assert_eq!(day, 253_402_300_800);
}

#[test]
fn a_stamp_is_read_again_where_it_differs() {
    let mut last = LastStamp::default();
    let other = String::from_utf8(LINE.to_vec()).expect("ASCII").replace(":03 ", ":04 ");
    for _ in 0..2 {
        assert_eq!(parse(LINE, &mut last).expect("a record").second, 1_431_857_103);
        assert_eq!(parse(other.as_bytes(), &mut last).expect("a record").second, 1_431_857_104);
    }
    let bad = other.replace("May", "Mai");
    assert_eq!(parse(bad.as_bytes(), &mut last), Err(Reason::BadTime));
}

#[test]
fn an_endpoint_is_a_path() {
    for (request, endpoint) in [
        (&b"GET http://host:80/p?q HTTP/1.1"[..], &b"/p"[..]),
        (b"GET http://host?q/r HTTP/1.1", b"/"),
        (b"OPTIONS * HTTP/1.1", b"*"),
        (b"GET a1://b/c", b"a1://b/c"),
        (b"GET ", b"-"),
        (b" /", b"-"),
    ] {
        assert_eq!(endpoint_of(request), endpoint);
    }
}

#[test]
fn records_have_a_place_in_every_column() {
    let mut records = Records::with_capacity(2, 10);
    assert_eq!(records.read(LINE, None), Ok(()));
    assert_eq!(records.read(b"rubbish", None), Err(Reason::Beginning));
    assert_eq!(records.read(&LINE[..LINE.len() - 19], None), Ok(()));
    assert_eq!(records.read(&[LINE, b"\r"].concat(), None), Ok(()));
    assert_eq!((records.len(), records.agent.ends.clone()), (3, vec![0, 6, 6, 12]));
    assert_eq!((0..3).map(|place| records.named.get(place)).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!((records.named.zeros(), records.timed.zeros()), (1, 1));
}
