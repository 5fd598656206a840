"""The code of the documents that use Spark runs, on the session of the other tests."""

from __future__ import annotations

import pytest
from tests.shape.documents import DOCUMENTS, name, program

DOCUMENTS_WITH_SPARK = [document for document in DOCUMENTS if "pyspark" in program(document)]


def test_the_search_finds_the_page_on_spark():
    assert "docs/howto/spark.md" in map(name, DOCUMENTS_WITH_SPARK)


@pytest.mark.parametrize("document", DOCUMENTS_WITH_SPARK, ids=name)
def test_the_code_of_the_document_runs(document, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = compile(program(document), name(document), "exec")
    exec(code, {"__name__": "__main__"})  # as a script: Spark then takes its functions along by value
