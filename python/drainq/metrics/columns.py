"""Thousands of lines at once, as columns.

Why: a regular expression per line costs 2 to 8 microseconds; splitting whole columns with Arrow's kernels costs
0.8 and releases the GIL.

1. The quick way is taken only by lines of the regular shape, decided by tests that imply a match of the rules in
   :mod:`drainq.metrics.line`; all others go through :func:`drainq.metrics.line.parse`, one by one.
2. So both give the same record for every line. A test draws lines to hold it to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drainq.metrics import line as rules

Mask = NDArray[np.bool_]
LONGEST_TIME = 20  # bytes of " 123456789.123456789"
STAMP = 29  # bytes of "[17/May/2015:10:05:03 +0000] "


@dataclass
class Columns:
    """The records of a batch, a row each, in no order; ``known`` rows of the optional columns only.

    Args:
        client, endpoint: binary. second: epoch seconds. status, size: numbers.
        referrer, agent: binary, and ``named`` the rows of the batch that have them, in their order.
        milliseconds: request times, and ``timed`` the rows of the batch that have one.
    """

    client: pa.BinaryArray
    second: NDArray[np.int64]
    endpoint: pa.BinaryArray
    status: NDArray[np.int64]
    size: NDArray[np.int64]
    referrer: pa.BinaryArray
    agent: pa.BinaryArray
    named: NDArray[np.int64]
    milliseconds: NDArray[np.float64]
    timed: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.second)


def parse_lines(lines: pa.BinaryArray) -> tuple[list[Columns], list[tuple[int, bytes, str]]]:
    """Read lines; a last ``\\r`` is part of the line end.

    Args:
        lines: no NULLs.
    Returns:
        The records, in one or more groups, and the bad lines as (place in ``lines``, line, reason), in order.
    """
    groups: list[Columns] = []
    rest = np.ones(len(lines), dtype=bool)
    regular = ~_lines_with(lines, b"\\\r")
    pieces = pc.split_pattern(lines, b'"')
    offsets = pieces.offsets.to_numpy()
    counts, texts = np.diff(offsets), pieces.values
    for parts, read in ((7, _combined), (3, _common)):
        places = np.flatnonzero(regular & (counts == parts))
        places = places[_lengths(texts, offsets[places]) > STAMP]  # Arrow's slices refuse values that are too short
        if len(places):
            group, taken = read(texts, offsets[places])
            rest[places[taken]] = False
            if len(group):
                groups.append(group)
    records, bad = [], []
    for place in np.flatnonzero(rest):
        line = lines[place].as_py()
        line = line[:-1] if line.endswith(b"\r") else line
        found = rules.parse(line)
        if isinstance(found, str):
            bad.append((int(place), line, found))
        else:
            records.append(found)
    if records:
        groups.append(_from_records(records))
    return groups, bad


def _combined(texts: pa.BinaryArray, starts: NDArray[Any]) -> tuple[Columns, Mask]:
    """Lines of seven pieces: prefix, request, " 200 1234 ", referrer, " ", agent, and "" or " 0.042"."""
    numbers = pc.split_pattern(_take(texts, starts + 2), b" ")
    fits = _lengths(texts, starts + 4) == 1
    fits &= np.diff(numbers.offsets.to_numpy()) == 4
    # pieces of a split hold no space, so the one byte between referrer and agent must be looked at itself
    fits[fits] = _first_bytes(texts, starts[fits] + 4) == ord(" ")
    numbers_start = numbers.offsets.to_numpy()[:-1]
    fits[fits] = (_lengths(numbers.values, numbers_start[fits]) == 0) & (
        _lengths(numbers.values, numbers_start[fits] + 3) == 0
    )
    tail_lengths = _lengths(texts, starts + 6)
    fits &= tail_lengths <= LONGEST_TIME
    fits[fits] &= (tail_lengths[fits] == 0) | (
        (tail_lengths[fits] > 1) & (_first_bytes(texts, starts[fits] + 6) == ord(" "))
    )
    has_time = fits & (tail_lengths > 0)
    # a stop must be said: Arrow 26 cannot size the result of an open slice from 1
    tails = pc.binary_slice(_take(texts, starts[has_time] + 6), 1, LONGEST_TIME)
    return _regular(texts, starts, fits, numbers.values, numbers_start, tails, has_time, with_names=True)


def _common(texts: pa.BinaryArray, starts: NDArray[Any]) -> tuple[Columns, Mask]:
    """Lines of three pieces: prefix, request, and " 200 1234" or " 200 1234 0.042"."""
    numbers = pc.split_pattern(_take(texts, starts + 2), b" ")
    count = np.diff(numbers.offsets.to_numpy())
    fits = (count == 3) | (count == 4)
    numbers_start = numbers.offsets.to_numpy()[:-1]
    fits[fits] = _lengths(numbers.values, numbers_start[fits]) == 0
    has_time = count == 4
    tails = _take(numbers.values, numbers_start[has_time] + 3)
    return _regular(texts, starts, fits, numbers.values, numbers_start, tails, has_time, with_names=False)


def _regular(
    texts: pa.BinaryArray, starts: NDArray[Any], fits: Mask, numbers: pa.BinaryArray, numbers_start: NDArray[Any],
    tails: pa.BinaryArray, has_time: Mask, *, with_names: bool,
) -> tuple[Columns, Mask]:  # fmt: skip
    """The columns of those lines that fit, and which they are. ``fits`` is narrowed on the way."""
    prefix = _take(texts, starts)
    head = pc.split_pattern(pc.binary_slice(prefix, 0, -STAMP), b" ")  # "client ident user "
    head_start = head.offsets.to_numpy()[:-1]
    fits &= np.diff(head.offsets.to_numpy()) == 4
    for token, empty in ((0, False), (1, False), (2, False), (3, True)):
        fits[fits] = (_lengths(head.values, head_start[fits] + token) == 0) == empty
    second, known = _seconds(pc.binary_slice(prefix, -STAMP))
    fits &= known
    status, known = _status(numbers, numbers_start, fits)
    fits &= known
    size, known = _sizes(numbers, numbers_start, fits)
    fits &= known
    milliseconds, timed, known = _milliseconds(tails, has_time)
    fits &= known
    keep = np.flatnonzero(fits)
    starts, kept_timed = starts[keep], np.flatnonzero(timed[keep])
    named = np.arange(len(keep)) if with_names else np.empty(0, dtype=np.int64)
    named_starts = starts if with_names else starts[:0]
    columns = Columns(
        client=_take(head.values, head_start[keep]),
        second=second[keep],
        endpoint=_endpoints(_take(texts, starts + 1)),
        status=status[keep],
        size=size[keep],
        referrer=_take(texts, named_starts + 3),
        agent=_take(texts, named_starts + 5),
        named=named,
        milliseconds=milliseconds[keep][kept_timed],
        timed=kept_timed,
    )
    return columns, fits


def _seconds(stamps: pa.BinaryArray) -> tuple[NDArray[np.int64], Mask]:
    """Epoch seconds of "[17/May/2015:10:05:03 +0000] ", and which are real; each distinct stamp is read once."""
    distinct = stamps.dictionary_encode()
    read = [
        rules.second_of(stamp[1:-2]) if len(stamp) == STAMP and stamp[0] == 91 and stamp[-2:] == b"] " else None
        for stamp in distinct.dictionary.to_pylist()
    ]
    values = np.array([0 if second is None else second for second in read], dtype=np.int64)
    known = np.array([second is not None for second in read], dtype=bool)
    indices = distinct.indices.to_numpy()
    return values[indices], known[indices]


def _status(numbers: pa.BinaryArray, starts: NDArray[Any], fits: Mask) -> tuple[NDArray[np.int64], Mask]:
    """Three digits."""
    status, known = np.zeros(len(fits), dtype=np.int64), fits.copy()
    known[known] = _lengths(numbers, starts[known] + 1) == 3
    data, offsets = _raw(numbers)
    begin = offsets[starts[known] + 1]
    digits = [data[begin + place].astype(np.int64) - ord("0") for place in range(3)]
    status[known] = digits[0] * 100 + digits[1] * 10 + digits[2]
    known[known] = np.logical_and.reduce([(0 <= digit) & (digit <= 9) for digit in digits])
    return status, known


def _sizes(numbers: pa.BinaryArray, starts: NDArray[Any], fits: Mask) -> tuple[NDArray[np.int64], Mask]:
    """Up to 15 digits; ``-`` is 0."""
    size, known = np.zeros(len(fits), dtype=np.int64), fits.copy()
    texts = _take(numbers, starts[known] + 2)
    texts = pc.if_else(pc.equal(texts, b"-"), pa.scalar(b"0", pa.binary()), texts).view(pa.string())
    digits = pc.and_(pc.ascii_is_decimal(texts), pc.less_equal(pc.binary_length(texts), 15)).to_numpy(
        zero_copy_only=False
    )
    known[known] = digits
    size[known] = texts.filter(pa.array(digits)).cast(pa.int64()).to_numpy()
    return size, known


def _milliseconds(tails: pa.BinaryArray, has_time: Mask) -> tuple[NDArray[np.float64], Mask, Mask]:
    """Request times of the lines in ``has_time``, whose texts are ``tails``; which are numbers; which lines fit."""
    milliseconds, timed, known = np.zeros(len(has_time)), has_time.copy(), ~has_time
    if not timed.any():
        return milliseconds, timed, known
    texts = tails.view(pa.string())
    numeric = pc.match_substring_regex(texts, r"^[0-9]{1,9}(\.[0-9]{1,9})?$").to_numpy(zero_copy_only=False)
    nothing = pc.equal(texts, "-").to_numpy(zero_copy_only=False)
    known[timed] = numeric | nothing
    timed[timed] = numeric
    milliseconds[timed] = texts.filter(pa.array(numeric)).cast(pa.float64()).to_numpy() * 1000
    return milliseconds, timed, known


def _endpoints(requests: pa.BinaryArray) -> pa.BinaryArray:
    """Each distinct request's endpoint."""
    distinct = requests.dictionary_encode()
    endpoints = pa.array([rules.endpoint_of(request) for request in distinct.dictionary.to_pylist()], pa.binary())
    return endpoints.take(distinct.indices)


def _from_records(records: Sequence[rules.Record]) -> Columns:
    named = [place for place, record in enumerate(records) if record.agent is not None]
    timed = [place for place, record in enumerate(records) if record.seconds is not None]
    return Columns(
        client=pa.array([record.client for record in records], pa.binary()),
        second=np.array([record.second for record in records], dtype=np.int64),
        endpoint=pa.array([record.endpoint for record in records], pa.binary()),
        status=np.array([record.status for record in records], dtype=np.int64),
        size=np.array([record.size for record in records], dtype=np.int64),
        referrer=pa.array([records[place].referrer for place in named], pa.binary()),
        agent=pa.array([records[place].agent for place in named], pa.binary()),
        named=np.array(named, dtype=np.int64),
        milliseconds=np.array([1000 * (records[place].seconds or 0.0) for place in timed], dtype=np.float64),
        timed=np.array(timed, dtype=np.int64),
    )


def _raw(texts: pa.BinaryArray) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The bytes of all texts, and where each begins and the last ends; views, nothing is copied."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data if data is not None else b"", dtype=np.uint8), bounds


def _lengths(texts: pa.BinaryArray, places: NDArray[Any]) -> NDArray[np.int32]:
    bounds = _raw(texts)[1]
    lengths: NDArray[np.int32] = bounds[places + 1] - bounds[places]
    return lengths


def _first_bytes(texts: pa.BinaryArray, places: NDArray[Any]) -> NDArray[np.uint8]:
    """The first byte of each text; of an empty text, some byte or other."""
    data, bounds = _raw(texts)
    if not len(data):
        return np.zeros(len(places), dtype=np.uint8)
    first: NDArray[np.uint8] = data[np.minimum(bounds[places], len(data) - 1)]
    return first


def _take(texts: pa.BinaryArray, places: NDArray[Any]) -> pa.BinaryArray:
    return texts.take(pa.array(places))


def _lines_with(lines: pa.BinaryArray, these: bytes) -> Mask:
    """Which lines hold any of these bytes."""
    found = np.zeros(len(lines), dtype=bool)
    if not len(lines):
        return found
    data, bounds = _raw(lines)
    used = data[bounds[0] : bounds[-1]]
    for byte in these:
        if byte in used.tobytes():  # memchr: far quicker than comparing, and mostly in vain
            places = np.flatnonzero(used == byte) + bounds[0]
            found[np.searchsorted(bounds, places, side="right") - 1] = True
    return found
