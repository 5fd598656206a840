//! Which places of a column are valid: Arrow's validity bitmap, least significant bit first.

/// A bitmap that grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValidityBitmap {
    bytes: Vec<u8>,
    length: usize,
    zeros: usize,
}

impl ValidityBitmap {
    /// No place yet, with room for some.
    pub fn with_capacity(places: usize) -> Self {
        Self { bytes: Vec::with_capacity(places.div_ceil(8)), length: 0, zeros: 0 }
    }

    /// One more place.
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

    /// Makes a place valid.
    #[inline]
    pub fn set(&mut self, place: usize) {
        if !self.get(place) {
            self.bytes[place / 8] |= 1 << (place % 8);
            self.zeros -= 1;
        }
    }

    /// Forgets all places from `length` on.
    pub fn truncate(&mut self, length: usize) {
        while self.length > length {
            self.length -= 1;
            self.zeros -= usize::from(!self.get(self.length));
            self.bytes[self.length / 8] &= !(1 << (self.length % 8));
        }
        self.bytes.truncate(length.div_ceil(8));
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many are not valid.
    pub fn zeros(&self) -> usize {
        self.zeros
    }

    /// The bits, eight places in a byte.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// A bitmap that is borrowed: `places` from the bit `offset` on.
#[derive(Clone, Copy, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Bits<'a> {
    /// The places from `offset` on, as many as the caller will ask for.
    pub fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { bytes, offset }
    }

    /// Whether a place is valid.
    #[inline]
    pub fn get(&self, place: usize) -> bool {
        let bit = self.offset + place;
        self.bytes[bit / 8] >> (bit % 8) & 1 == 1
    }
}
