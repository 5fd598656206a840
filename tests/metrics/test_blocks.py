"""Every line of a log is read once, however the log is cut."""

from __future__ import annotations

import bz2
import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drainq.metrics.blocks import Block, pieces, tasks
from drainq.metrics.log_files import Source, find

contents = st.lists(st.sampled_from([b"", b"a", b"bb\r", b"c" * 9]), max_size=12).map(b"\n".join)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("blocks") / "log"


@given(
    content=contents,
    block=st.integers(1, 12),
    piece=st.integers(1, 12),
    pack=st.sampled_from([bytes, gzip.compress, bz2.compress, lzma.compress]),
)
def test_blocks_and_pieces_together_are_the_log(log, content, block, piece, pack):
    log.write_bytes(pack(content))
    parts = []
    for task in tasks([find(0, str(log))], size=block):
        for each in task:
            of_block = list(pieces(each, size=piece))
            assert all(part.endswith(b"\n") for part in of_block[:-1]) and b"" not in of_block
            parts += of_block
    assert b"".join(parts) == content
    assert all(part.endswith(b"\n") for part in parts[:-1])


def test_small_logs_share_a_task_and_large_ones_are_cut():
    sizes = [10, 20, 250, 5]
    sources = [Source(number, f"/{number}", False, size, 0) for number, size in enumerate(sizes)]
    found = [[(block.source, block.begin, block.end) for block in task] for task in tasks(sources, size=100)]
    assert found == [[(0, 0, 10), (1, 0, 20), (2, 0, 100)], [(2, 100, 200)], [(2, 200, 250), (3, 0, 5)]]


def test_a_compressed_log_is_one_block_and_counts_ten_times_and_an_empty_one_is_none():
    packed = [Source(number, "/x.gz", True, 5, 0) for number in range(3)]
    assert [[block.source for block in task] for task in tasks(packed, size=100)] == [[0, 1], [2]]
    assert tasks([Source(0, "/x.gz", True, 10**9, 0)]) == [(Block(0, "/x.gz", 0, None),)]
    assert tasks([Source(0, "/empty", False, 0, 0)]) == []
