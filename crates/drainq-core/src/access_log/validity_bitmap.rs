//! Arrow's validity bitmap, least significant bit first: marks the places of a column that have a value.

/// A bitmap that grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValidityBitmap {
    bytes: Vec<u8>,
    length: usize,
    zeros: usize,
}

impl ValidityBitmap {
    /// Makes an empty bitmap with room for some places.
    pub fn with_capacity(places: usize) -> Self {
        Self { bytes: Vec::with_capacity(places.div_ceil(8)), length: 0, zeros: 0 }
    }

    /// Adds a place.
    #[inline]
    pub fn push(&mut self, valid: bool) {
        if self.length.is_multiple_of(8) {
            self.bytes.push(0);
        }
        let last = self.bytes.len() - 1;
        self.bytes[last] |= u8::from(valid) << (self.length % 8);
        self.length += 1;
        self.zeros += usize::from(!valid);
    }

    /// Whether a place is valid.
    #[inline]
    pub fn get(&self, place: usize) -> bool {
        self.bytes[place / 8] >> (place % 8) & 1 == 1
    }

    /// Returns the number of places that are not valid.
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// Returns the bits, eight places in a byte.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}
