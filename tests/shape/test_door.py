"""The binding calls Python code through the door of `gil.rs`: a thread that ends in such a call is halted there.

PyO3's own calls are for what runs while the module is loaded, where the interpreter is not going away.
"""

import re

from tests.shape.project import ROOT

BINDING = ROOT / "crates" / "drainq-py" / "src"
WHILE_LOADING = {"fork.rs", "batch/produce/raw_method.rs", "batch/config.rs"}
NO_PYTHON_CODE = {"sketch/values.rs"}  # memoryview.tobytes
CALL = re.compile(r"\.call(0|1|_method|_method0|_method1)\(")


def calls():
    for file in sorted(BINDING.rglob("*.rs")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if CALL.search(line):
                yield file.relative_to(BINDING).as_posix(), number, line.strip()


def test_no_python_code_is_called_past_the_door():
    found = list(calls())
    assert any(file == "fork.rs" for file, _, _ in found), "the pattern finds nothing"
    assert [call for call in found if call[0] not in WHILE_LOADING | NO_PYTHON_CODE] == []
