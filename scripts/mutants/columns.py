"""Faults in the work on columns: in the core, and in the binding that reads and writes Arrow's structs."""

from __future__ import annotations

from .mutant import Mutant

CORE = "crates/drainq-core/src/columns"
ARROW = "crates/drainq-py/src/arrow"
LOG = "tests/columns/test_access_log.py"
GROUPS = "tests/columns/test_group_by.py"
MODEL = f"{GROUPS}::test_agrees_with_a_plain_model_whole_and_in_parts"

MUTANTS = [
    # -- lines ------------------------------------------------------------------------------------
    Mutant(
        "a_backslash_keeps_nothing",
        "a quote after a backslash ends the field",
        f"{CORE}/access_log/line.rs",
        "            end += 2;\n",
        "            end += 1;\n",
        f"{LOG}::test_agrees_with_the_rules",
    ),
    Mutant(
        "a_user_name_ends_in_spaces",
        "a user name of several words may end in a space",
        f"{CORE}/access_log/line.rs",
        "(is_name && user[bracket - 2] != b' ').then_some(bracket)?",
        "is_name.then_some(bracket)?",
        f"{LOG}::test_agrees_with_the_rules",
    ),
    Mutant(
        "the_last_stamp_is_every_stamp",
        "a line has the time of the line before",
        f"{CORE}/access_log/line.rs",
        "if text != self.stamp {",
        "if text.len() != self.stamp.len() || self.second == 0 {",
        f"{LOG}::test_agrees_with_the_rules",
    ),
    Mutant(
        "a_zone_is_added",
        "a time east of Greenwich is taken for one in the west",
        f"{CORE}/access_log/stamp.rs",
        "+ second.min(59) - zone)",
        "+ second.min(59) + zone)",
        f"{LOG}::test_agrees_with_the_rules",
    ),
    Mutant(
        "seconds_are_rounded_twice",
        "a long request time is rounded twice",
        f"{CORE}/access_log/line.rs",
        "if scaled <= EXACT {",
        "if scaled <= i64::MAX {",
        f"{LOG}::test_a_request_time_is_rounded_once",
    ),
    # -- groups -----------------------------------------------------------------------------------
    Mutant(
        "a_missing_key_is_zero",
        "a missing key is kept as 0",
        f"{CORE}/group_by/key_column.rs",
        "                    values.push(if is_valid { others[row] } else { 0 });\n                    valid.push(is_valid);\n",
        "                    values.push(if is_valid { others[row] } else { 0 });\n                    valid.push(true);\n",
        MODEL,
    ),
    Mutant(
        "a_missing_text_is_empty",
        "a missing text is kept as an empty one",
        f"{CORE}/group_by/key_column.rs",
        "                    valid.push(keys.is_valid(row));\n",
        "                    valid.push(true);\n",
        MODEL,
    ),
    Mutant(
        "refused_groups_stay",
        "a batch with too many groups leaves some of their keys",
        f"{CORE}/group_by/keys.rs",
        "            self.columns.iter_mut().for_each(|column| column.truncate(groups));\n",
        "",
        f"{GROUPS}::test_too_many_groups_are_refused_whole_and_taken_on",
        dies="crashes",
    ),
    Mutant(
        "refused_groups_are_found",
        "the table finds groups of a batch that was refused",
        f"{CORE}/group_by/group_table.rs",
        "        self.hashes.truncate(groups);\n        self.rebuild(self.slots.len());\n",
        "        self.hashes.truncate(groups);\n",
        f"{GROUPS}::test_too_many_groups_are_refused_whole_and_taken_on",
        dies="crashes",
    ),
    Mutant(
        "groups_are_lost_as_the_table_grows",
        "a table that has grown does not find the groups of before",
        f"{CORE}/group_by/group_table.rs",
        "for group in 0..self.hashes.len() {",
        "for group in self.hashes.len() - 1..self.hashes.len() {",
        f"{GROUPS}::test_many_groups_are_all_found_again",
        dies="crashes",
    ),
    Mutant(
        "missing_values_are_added",
        "a null is what lies in its place",
        f"{CORE}/group_by/aggregate.rs",
        "            for (row, group) in groups.iter().enumerate() {\n                if validity.get(row) {\n",
        "            for (row, group) in groups.iter().enumerate() {\n                if validity.get(row) || true {\n",
        MODEL,
    ),
    Mutant(
        "unsigned_is_signed",
        "large numbers without a sign are negative",
        f"{CORE}/group_by/aggregate.rs",
        "let turned = if *unsigned { i64::MIN } else { 0 };",
        "let turned = if *unsigned { 0 } else { 0 };",
        f"{GROUPS}::test_numbers_without_a_sign_and_truth_values",
    ),
    Mutant(
        "partial_counts_are_counted",
        "a merge counts partial results instead of adding them",
        f"{CORE}/group_by/aggregate.rs",
        "(Self::IntSums { sums, seen: None, .. }, Some((_, validity))) if source == Source::Rows => {",
        "(Self::IntSums { sums, seen: None, .. }, Some((_, validity))) if source == Source::Rows || true => {",
        MODEL,
    ),
    Mutant(
        "sums_wrap",
        "a sum that 64 bits do not hold comes out wrapped",
        f"{CORE}/group_by/aggregate.rs",
        "if values[row] < 0 { -BEYOND } else { BEYOND };",
        "0;",
        f"{GROUPS}::test_a_sum_beyond_64_bits_is_an_error_and_is_kept_exactly",
    ),
    # -- Arrow's structs --------------------------------------------------------------------------
    Mutant(
        "a_slice_is_read_from_the_start",
        "the offset of a column is left out",
        f"{ARROW}/view.rs",
        ".get(rows.offset..).unwrap_or_default())",
        ".get(..rows.length).unwrap_or_default())",
        MODEL,
    ),
    Mutant(
        "the_slice_of_a_struct_is_forgotten",
        "the offset of a batch is left out",
        f"{ARROW}/view.rs",
        "Rows { offset: own.offset + self.rows.offset, length: self.rows.length }",
        "Rows { offset: own.offset, length: self.rows.length }",
        f"{GROUPS}::test_a_struct_that_is_a_slice_is_read_from_its_place",
    ),
    Mutant(
        "bitmaps_are_read_from_the_start",
        "the offset of a validity bitmap is left out",
        f"{ARROW}/view.rs",
        "Ok(Some(Bits::new(bytes, rows.offset)))",
        "Ok(Some(Bits::new(bytes, 0)))",
        MODEL,
    ),
    Mutant(
        "nulls_of_a_dictionary_are_values",
        "a null in a dictionary is a value",
        f"{ARROW}/view.rs",
        "valid.push(is_valid && all.validity.get(*index as usize));",
        "valid.push(is_valid);",
        MODEL,
    ),
    Mutant(
        "a_capsule_is_taken_twice",
        "a capsule that was used is used again",
        f"{ARROW}/import.rs",
        "    if content.is_released() {\n",
        "    if false && content.is_released() {\n",
        "tests/columns/test_arrow.py::test_a_capsule_is_used_once",
        dies="crashes",
    ),
    Mutant(
        "a_struct_keeps_no_share",
        "the columns go with the object that exported them",
        f"{ARROW}/export.rs",
        "let mut content = Box::new(ArrayContent { _batch: batch.clone(), buffers, children });",
        "let weak = Arc::new(ExportedBatch { rows: 0, columns: Vec::new() });\n"
        "    let mut content = Box::new(ArrayContent { _batch: weak, buffers, children });",
        "tests/columns/test_arrow.py::test_a_batch_is_taken_as_often_as_one_likes_and_outlives_its_object",
        dies="crashes",
    ),
    Mutant(
        "column_shorter_than_its_batch",
        "a column that is shorter than its batch is read beyond its end",
        "crates/drainq-py/src/arrow/view.rs",
        "        if last.is_none_or(|last| last > own.length) {",
        "        if last.is_none() {",
        "tests/columns/test_broken_arrow.py::test_a_broken_batch_is_refused_and_adds_nothing",
        dies="crashes",
    ),
    # -- Arrow's structs ----------------------------------------------------------------------------
    Mutant(
        "the_columns_of_a_released_batch_stay",
        "the columns of an array that is released are not released with it, and keep the whole batch",
        f"{ARROW}/export.rs",
        "        let content = Box::from_raw((*array).private_data.cast::<ArrayContent>());\n"
        "        content.children.iter().for_each(|child| drop(Box::from_raw(*child)));\n",
        "        let _content = Box::from_raw((*array).private_data.cast::<ArrayContent>());\n",
        "tests/columns/test_arrow_memory.py::test_what_is_handed_out_is_given_back",
    ),
    Mutant(
        "lines_without_a_limit",
        "more lines are read than the ends of a column of ours can count",
        "crates/drainq-py/src/columns/access_log.rs",
        "    check_size(bytes)?;\n    let rows",
        "    let rows",
        "tests/columns/test_arrow_memory.py::test_as_many_bytes_as_a_column_of_ours_can_hold_are_taken_and_no_more",
    ),
]
