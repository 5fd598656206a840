"""Logs are read whatever compressed them, and what is no text is refused by its kind."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import sys
import tarfile
import zipfile

import pytest

pytest.importorskip("pyarrow")

from drainq.metrics import open_log
from drainq.metrics.errors import UserError
from drainq.metrics.job import run
from drainq.metrics.log_files import digest, find
from drainq.metrics.log_names import named
from tests.metrics.logs import contents, lines, write

zstd = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
PACK = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress, "zstd": zstd.compress}
TEXT = "".join(f"{line}\n" for line in lines(300)).encode()


def loaded(tmp_path, path):
    outcome = run([str(path)], out=tmp_path / "out" / path.name, engine="local")
    assert outcome.reconciled and outcome.lines == 300
    return contents(f"sqlite:///{tmp_path}/out/{path.name}/metrics.db", sources=False)


def test_a_log_gives_the_same_tables_whatever_compressed_it(tmp_path):
    (tmp_path / "plain").write_bytes(TEXT)
    expected, content = loaded(tmp_path, tmp_path / "plain"), digest(find(0, str(tmp_path / "plain")))
    for name, pack in PACK.items():
        path = tmp_path / name
        path.write_bytes(pack(TEXT[:9_000]) + pack(TEXT[9_000:]))
        assert (loaded(tmp_path, path), digest(find(0, str(path)))) == (expected, content), name


def test_a_compressed_log_that_is_cut_off_or_damaged_is_refused(tmp_path):
    for name, pack in PACK.items():
        whole, path = pack(TEXT), tmp_path / name
        middle = len(whole) // 2
        for wrong in (whole[:-20], whole[:-1], whole[:middle], whole[:middle] + b"\0" * 40 + whole[middle + 40 :]):
            path.write_bytes(wrong)
            with pytest.raises(UserError, match=f"is no complete {name} file .*; fetch it again"):
                digest(find(0, str(path)))
            with pytest.raises(UserError, match=f"is no complete {name} file"):
                run([str(path)], out=tmp_path / "out", engine="local")


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path, following):
    expected = loaded(tmp_path, tmp_path.joinpath(write(tmp_path / "plain", lines(300))))
    for name, content in (("marked", open_log.BOM + TEXT), ("marked.gz", gzip.compress(open_log.BOM + TEXT))):
        (tmp_path / name).write_bytes(content)
        assert loaded(tmp_path, tmp_path / name) == expected
    assert following(tmp_path / "marked").outcome.bad == 0
    (tmp_path / "empty").write_bytes(open_log.BOM)
    assert run([str(tmp_path / "empty")], out=tmp_path / "out" / "empty", engine="local").lines == 0


def test_what_is_no_text_is_refused_by_its_kind(tmp_path):
    tar, packed = io.BytesIO(), io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add(write(tmp_path / "a.log", lines(3)), "a.log")
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.log", TEXT)
    text = TEXT.decode()
    cases = [
        ("a tar archive; unpack it", tar.getvalue()),
        *(("a tar archive; unpack it", pack(tar.getvalue())) for pack in PACK.values()),
        ("a zip archive; unpack it", packed.getvalue()),
        ("compressed with lz4", b"\x04\x22\x4d\x18" + b"x" * 90),
        *(("text in UTF-16; write it as UTF-8", text.encode(code)) for code in ("utf-16", "utf-16-le", "utf-16-be")),
        ("text in UTF-16; write it as UTF-8", gzip.compress(text.encode("utf-16"))),
    ]
    path = tmp_path / "log"
    for told, content in cases:
        path.write_bytes(content)
        with pytest.raises(UserError) as refused:
            find(0, str(path))
        assert str(refused.value).startswith(f"{str(path)!r} is {told}")
    for fine in (b"\0" * 600, b"", b"\0", b"a\0b", b"x\0" * 3, TEXT[:250] + b"ustar" + TEXT):
        path.write_bytes(fine)
        find(0, str(path))


def test_zstd_without_its_package_names_the_extra(tmp_path, monkeypatch):
    path = tmp_path / "log.zst"
    path.write_bytes(zstd.compress(TEXT))

    def missing(module: str):
        raise ModuleNotFoundError(module)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(
        UserError, match=r"is compressed with zstd, which needs a package: pip install 'drainq\[zstd\]'"
    ):
        find(0, str(path))


def test_the_standard_input_is_named_once():
    with pytest.raises(UserError, match="LOG must be - once at most"), named(["-", "-"], io.BytesIO(b"a line")):
        pass


def test_the_name_of_a_file_is_that_file_also_if_it_is_a_pattern_for_others(tmp_path):
    for name in ("a[1].log", "a1.log", "b*.log", "bb.log"):
        (tmp_path / name).write_text("")
    pattern = f"{tmp_path}/[b]b.log"
    words = [f"{tmp_path}/a[1].log", f"{tmp_path}/b*.log", pattern]
    with named(words, None) as paths:
        assert paths == [*words[:2], f"{tmp_path}/bb.log"]
