"""The code of the documents that use Spark runs, on the session of the other tests."""

from __future__ import annotations

import itertools

import pytest
from tests.shape.documents import DOCUMENTS, name, program
from tests.spark_session import once_python_is_there

DOCUMENTS_WITH_SPARK = [document for document in DOCUMENTS if "pyspark" in program(document)]


def test_the_search_finds_the_page_on_spark():
    assert "docs/howto/spark.md" in map(name, DOCUMENTS_WITH_SPARK)


@pytest.mark.parametrize("document", DOCUMENTS_WITH_SPARK, ids=name)
def test_the_code_of_the_document_runs(document, spark, tmp_path, monkeypatch):
    code, folders = compile(program(document), name(document), "exec"), itertools.count()

    def in_an_empty_folder():
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        monkeypatch.chdir(folder)
        exec(code, {"__name__": "__main__"})  # as a script: Spark then takes its functions along by value

    once_python_is_there(in_an_empty_folder)
