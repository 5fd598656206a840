//! What is asked for, and the columns of a batch that it names.

use super::aggregate::AggregateFunction;
use crate::columns::column::Column;
use crate::sketch::DDSketch;

/// What is asked for: the keys' columns, and for each aggregate its name, function and column.
#[derive(Clone, Debug)]
pub struct GroupByRequest {
    /// Names of the key columns.
    pub keys: Vec<String>,
    /// Name of the result, function, name of the column.
    pub aggregates: Vec<(String, AggregateFunction, String)>,
    /// The most groups; None: as many as there is memory for.
    pub max_groups: Option<usize>,
    /// An empty sketch with the settings of all sketches.
    pub sketch: DDSketch,
}

/// The columns of a batch that the request names.
#[derive(Clone, Debug)]
pub struct RequestedColumns<'a> {
    /// Rows.
    pub rows: usize,
    /// The key columns, in the request's order.
    pub keys: Vec<Column<'a>>,
    /// The aggregates' columns, in the request's order; None: a count whose column the batch has not.
    pub values: Vec<Option<Column<'a>>>,
}
