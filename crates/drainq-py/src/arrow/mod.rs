//! Arrow's C data interface and its PyCapsules, in both directions, without a copy of what comes in.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`c_data`] | the three structs of the interface |
//! | [`import`] | from a Python object to owned structs |
//! | [`view`] | from owned structs to borrowed columns of the core |
//! | [`unreadable`] | what is said where a column cannot be read |
//! | [`export`] | from columns of ours to structs |
//! | [`batch`] | a record batch of ours as a Python object |
//!
//! # Why our own
//!
//! The interface is three C structs, and what is needed of them is to read and to write flat columns. The crates that hold
//! it (`arrow-array`, `arrow-data`, `arrow-schema`, release 60, without default features) come with 17 others, add 46 seconds of
//! processor time to a clean build and 0.9 MB to a module that has 1.5 MB. The code here is 700 lines, its
//! `unsafe` is in `import`, `view` and `export`, and each block cites the rule of the interface that it rests on.
//!
//! # The rules of the interface
//! 1. A struct is released once, by its `release`, which is null afterwards. Who takes a struct over copies it and sets the
//!    `release` of the original to null.
//! 2. Until then its pointers stay valid and what they point to does not change: no buffer is written to.
//! 3. A buffer has room for `offset + length` places of its type; the buffer of ends has one more; the
//!    buffer of texts has as many bytes as the last end says. A buffer without a byte may be null.
//! 4. Structs may be released on any thread.
//!
//! A producer that breaks these rules breaks the process; that is in the nature of the interface. What the rules leave
//! open is checked: numbers of buffers and children, lengths, whether texts lie in their bytes.
//!
//! Source: "The Arrow C data interface", "The Arrow C stream interface" and "The Arrow PyCapsule Interface" of
//! Apache Arrow's format specification.

pub mod batch;
pub mod c_data;
pub mod export;
pub mod import;
pub mod unreadable;
pub mod view;
