//! The ends of texts that are handed out: 32 bits wide where these hold them, as Arrow's `string`, and 64 bits wide
//! otherwise, as its `large_string`; so for bytes.

use super::column::Type;

/// Where each text of a column ends in its bytes, after a 0.
#[derive(Debug, PartialEq, Eq)]
pub enum TextEnds {
    /// Of less than 2 GiB of texts.
    Small(Vec<i32>),
    /// Of more.
    Large(Vec<i64>),
}

impl TextEnds {
    /// Returns ascending ends in the narrowest width that holds them, and Arrow's type of texts with such ends.
    pub fn of(kind: &Type, ends: &[usize]) -> (Type, Self) {
        match ends.iter().map(|end| i32::try_from(*end)).collect() {
            Ok(ends) => (kind.clone(), Self::Small(ends)),
            Err(_) => {
                let wide = Type { format: kind.format.to_uppercase(), kind: kind.kind };
                (wide, Self::Large(ends.iter().map(|end| *end as i64).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_beyond_32_bits_are_wide_and_so_is_their_type() {
        const MOST: usize = i32::MAX as usize;
        for (format, wide) in [("u", "U"), ("z", "Z"), ("U", "U"), ("vz", "Z")] {
            let kind = Type::of(format).expect("texts");
            let small = TextEnds::Small(vec![0, 3, i32::MAX]);
            assert_eq!(TextEnds::of(&kind, &[0, 3, MOST]), (kind.clone(), small));
            let (found, ends) = TextEnds::of(&kind, &[0, 3, MOST + 1, MOST + 9]);
            assert_eq!(ends, TextEnds::Large(vec![0, 3, (1 << 31), (1 << 31) + 8]));
            assert_eq!((found.format.as_str(), found.kind), (wide, kind.kind));
        }
    }
}
