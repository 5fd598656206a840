"""The binding runs Python code behind the door of `guarded_calls.rs`: a thread that ends there is halted.

The linker sends the C functions of a list through the door. The test compares the list with the module's imports.
"""

import re
import struct
import sys

import pytest

from drainq import _native
from tests.shape.project import ROOT

BINDING = ROOT / "crates" / "drainq-py"
DOOR = (BINDING / "src" / "guarded_calls.rs").read_text()
LISTED = set(re.findall(r"^    fn (\w+)\(", DOOR.split("\nthrough_the_door! {", 1)[1], re.MULTILINE))

# Takes its arguments one by one, so the linker's door cannot hand them on: `gil.rs` takes it through the door itself.
IN_GIL = {"PyObject_CallFunctionObjArgs"}
# PyO3 halts the thread itself where it takes the GIL.
HALTED = {"PyEval_RestoreThread", "PyGILState_Ensure"}
# Runs while the module is loaded, where the interpreter is not going away.
WHILE_LOADING = {
    "PyCMethod_New",
    "PyDescr_NewMethod",
    "PyModule_NewObject",
    "PyModuleDef_Init",
    "PyType_FromSpec",
    "PyType_Modified",
    "PyCapsule_Import",
    "PyUnstable_Module_SetGIL",
}
# PyO3's calls of methods with arguments; the text of the binding is searched for them below.
METHODS = {"PyObject_CallMethodObjArgs"}
# Lets go of what was in the place before; here the places are those of a new list or tuple, which are empty.
FILLS = {"PyList_SetItem", "PyTuple_SetItem"}
NO_PYTHON_CODE = set(
    """
    PyBytes_AsString PyBytes_FromStringAndSize PyBytes_Size PyCallable_Check PyCapsule_GetName PyCapsule_GetPointer
    PyCapsule_New PyDict_Next PyDict_Size PyErr_Occurred PyErr_SetInterrupt PyEval_SaveThread PyException_GetTraceback PyFloat_FromDouble
    PyInterpreterState_Get PyInterpreterState_GetID PyList_GetItem PyList_Size PyLong_FromLong
    PyLong_FromSsize_t PyLong_FromUnsignedLongLong PyModule_GetNameObject PyObject_GC_Track PyObject_GC_UnTrack
    PyObject_GenericGetDict PyObject_GenericSetDict PySequence_Check PyTuple_GetItem PyTuple_Size
    PyType_GetFlags PyType_GetName PyType_GetQualName PyType_GetSlot PyType_IsSubtype PyUnicode_AsEncodedString PyUnicode_AsUTF8AndSize
    PyUnicode_FromStringAndSize PyUnicode_InternInPlace PyWeakref_GetObject Py_GetVersion Py_IsInitialized
    Py_NewRef _Py_IncRef
    PyCapsule_GetContext PyCriticalSection_End PyErr_GetRaisedException PyException_GetCause PyList_GetItemRef PyType_GetModuleName
    PyUnicode_EqualToUTF8AndSize PyWeakref_GetRef Py_IsFinalizing
    """.split()
)
CALL = re.compile(r"\.call(0|1|_method|_method0|_method1)\(")
MAY_CALL = {"fork.rs", "batch/queue/raw_method.rs", "sketch/values.rs"}  # on loading; tobytes


def imported(module: bytes) -> set[str]:
    """Return the functions that a 64-bit ELF module takes from elsewhere."""
    start, size, count = *struct.unpack_from("<Q", module, 40), *struct.unpack_from("<HH", module, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", module, start + size * at) for at in range(count)]
    symbols = next(section for section in sections if section[1] == 11)
    names = sections[symbols[6]][4]
    found = set()
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section = struct.unpack_from("<IBBH", module, at)
        if section == 0:
            found.add(module[names + name : module.index(b"\0", names + name)].decode())
    return {name for name in found if re.match(r"_?Py", name)}


@pytest.mark.skipif(sys.platform != "linux", reason="glibc alone unwinds the stack of a thread that ends")
def test_every_imported_function_goes_through_the_door_or_runs_no_python_code():
    with open(_native.__file__, "rb") as file:
        found = imported(file.read())
    found = {name for name in found if not re.search(r"(Type|^PyExc_\w+|Struct)$", name)}
    assert len(found) > 50
    assert found - LISTED - IN_GIL - HALTED - WHILE_LOADING - METHODS - FILLS - NO_PYTHON_CODE == set()
    assert LISTED & NO_PYTHON_CODE == set()


def test_drops_go_through_the_door():
    assert {"_Py_DecRef", "_Py_Dealloc", "Py_DecRef"} <= LISTED


def calls():
    for file in sorted((BINDING / "src").rglob("*.rs")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if CALL.search(line):
                yield file.relative_to(BINDING / "src").as_posix(), number, line.strip()


def test_no_method_of_python_code_is_called_past_the_door():
    found = list(calls())
    assert any(file == "fork.rs" for file, _, _ in found), "the pattern finds nothing"
    assert [call for call in found if call[0] not in MAY_CALL] == []
