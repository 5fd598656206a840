"""Payloads enter the queue and come back in the forms that the documents list."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark.sql.datasource", reason="the data source needs PySpark 4")

from drainq.datasource.payload_form import PayloadForm
from drainq.delayed import BytesCodec, MsgspecCodec, StrCodec

CODECS = {
    PayloadForm.TEXT: MsgspecCodec(),
    PayloadForm.JSON: MsgspecCodec(),
    PayloadForm.BINARY: BytesCodec(),
    PayloadForm.UTF8: StrCodec(),
}


@pytest.mark.parametrize(
    ("form", "value", "payload"),
    [
        (PayloadForm.TEXT, "plain 'text' \u00e9", "plain 'text' \u00e9"),
        (PayloadForm.TEXT, '{"a": 1}', '{"a": 1}'),
        (PayloadForm.TEXT, None, None),
        (PayloadForm.JSON, '{"a": [1, null]}', {"a": [1, None]}),
        (PayloadForm.JSON, '"text"', "text"),
        (PayloadForm.BINARY, b"\0\xff", b"\0\xff"),
        (PayloadForm.UTF8, "h\u00e9", "h\u00e9"),
    ],
)
def test_a_payload_comes_back_and_is_in_python_what_it_should_be(form, value, payload):
    stored = form.encode(value)
    assert form.decode(stored) == value
    codec = CODECS[form]
    assert codec.decode(stored) == payload
    assert codec.type_name == form.codec.type_name


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        (PayloadForm.JSON, "{no json", "a payload is no JSON document"),
        (PayloadForm.JSON, None, "a payload is NULL, which payload=json cannot say"),
        (PayloadForm.BINARY, None, "a payload is NULL"),
    ],
)
def test_what_cannot_be_a_payload_is_refused_with_its_key(form, value, words):
    with pytest.raises(ValueError, match=words):
        form.encode(value)


def test_a_message_that_is_no_text_says_how_to_read_it():
    with pytest.raises(ValueError, match=r"a payload is a dict, not a text: read with .option\('payload', 'json'\)"):
        PayloadForm.TEXT.decode(b'{"a": 1}')
    with pytest.raises(ValueError, match="a payload cannot be read as utf8"):
        PayloadForm.UTF8.decode(b"\xff")
