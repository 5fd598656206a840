//! The time of a log line: `17/May/2015:10:05:03 +0000`.

/// Bytes of a stamp.
pub const LENGTH: usize = 26;

const DAY: i64 = 86_400;

/// Returns the epoch seconds of a stamp, or None for no such time. A leap second counts as the second before it.
pub fn second_of(stamp: &[u8]) -> Option<i64> {
    let stamp: &[u8; LENGTH] = stamp.try_into().ok()?;
    let marks = [(2, b'/'), (6, b'/'), (11, b':'), (14, b':'), (17, b':'), (20, b' ')];
    if marks.iter().any(|(place, mark)| stamp[*place] != *mark) {
        return None;
    }
    let number = |from: usize, to: usize| {
        stamp[from..to].iter().try_fold(0, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit < 10).then(|| number * 10 + i64::from(digit))
        })
    };
    let (day, year) = (number(0, 2)?, number(7, 11)?);
    let month = month_of(&stamp[3..6])?;
    let (hour, minute, second) = (number(12, 14)?, number(15, 17)?, number(18, 20)?);
    let (zone_hours, zone_minutes) = (number(22, 24)?, number(24, 26)?);
    let is_time = hour < 24 && minute < 60 && second <= 60 && zone_hours < 24 && zone_minutes < 60;
    if !is_time || year < 1 || day < 1 || day > days_in(month, year) {
        return None;
    }
    let zone = match stamp[21] {
        b'+' => zone_hours * 3600 + zone_minutes * 60,
        b'-' => -(zone_hours * 3600 + zone_minutes * 60),
        _ => return None,
    };
    Some(days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second.min(59) - zone)
}

/// Returns the epoch seconds of `2015-05-17T10:05:03.5Z`, whose zone may be `+02:00` or `+0200`.
pub fn second_of_iso(text: &[u8]) -> Option<i64> {
    let (clock, zone) = text.split_at_checked(19)?;
    let fraction = zone.iter().take_while(|byte| **byte == b'.' || byte.is_ascii_digit()).count();
    let zone: [u8; 5] = match &zone[fraction..] {
        b"Z" => *b"+0000",
        [sign, h, i, b':', m, n] | [sign, h, i, m, n] => [*sign, *h, *i, *m, *n],
        _ => return None,
    };
    let month: usize = std::str::from_utf8(clock.get(5..7)?).ok()?.parse().ok()?;
    if clock[4] != b'-' || clock[7] != b'-' || clock[10] != b'T' {
        return None;
    }
    let name = NAMES.get(month.checked_sub(1)?)?;
    second_of(&[&clock[8..10], b"/", &name[..], b"/", &clock[..4], b":", &clock[11..], b" ", &zone].concat())
}

const NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

fn month_of(name: &[u8]) -> Option<i64> {
    NAMES.iter().position(|month| *month == name).map(|place| place as i64 + 1)
}

fn days_in(month: i64, year: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a date of the Gregorian calendar.
///
/// Source: `days_from_civil` in Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms".
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}
