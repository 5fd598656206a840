//! Why a batch was refused, in words.

use std::fmt;

/// Why a batch was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupByRefusal {
    /// The type of a column differs from that of earlier batches: column, type, earlier type.
    TypeChanged(String, String, String),
    /// A column that an aggregate or a key cannot take: column, type, what it is for.
    Type(String, String, &'static str),
    /// A column that earlier batches had, or had not, is missing, or is there.
    Presence(String),
    /// More groups than this.
    TooManyGroups(usize),
    /// More groups than can be numbered.
    Groups,
    /// A value that a sketch does not take: column, and what the sketch says.
    Sketch(String, crate::sketch::SketchRefusal),
    /// A text that does not lie in its column's bytes: column, row.
    Text(String, usize),
    /// A sum that does not fit its type: column, sum, the group's number.
    Sum(String, i128, usize),
    /// A count of a partial result that is below zero: column, value.
    Count(String, i64),
}

impl fmt::Display for GroupByRefusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TypeChanged(column, now, before) => {
                write!(to, "column {column:?} is of type {now}, and was {before} in the batches before")
            }
            Self::Type(column, kind, what) => write!(to, "column {column:?} is of type {kind}: {what}"),
            Self::Presence(column) => write!(
                to,
                "column {column:?} is in some batches and not in others: a count of a column that is missing counts rows"
            ),
            Self::TooManyGroups(most) => write!(
                to,
                "more than {most} groups, which is max_groups: pass on what take() returns and add the batch again; \
                 nothing of it was added"
            ),
            Self::Groups => write!(to, "there are 4,294,967,295 groups, and no more can be numbered"),
            Self::Sketch(column, refusal) => write!(to, "column {column:?}: {refusal}"),
            Self::Text(column, row) => {
                write!(to, "column {column:?} is broken: the text of row {row} does not lie in the column's bytes")
            }
            Self::Sum(column, sum, group) => {
                write!(to, "the sum of column {column:?} is {sum} in group {group}, which 64 bits do not hold")
            }
            Self::Count(column, count) => {
                write!(to, "column {column:?} has the count {count}: a count is not negative")
            }
        }
    }
}
