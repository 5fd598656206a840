"""Faults that are known by name, each with the test that must notice it. `__main__.py` says how to run them.

| file | what it holds |
| --- | --- |
| `mutant.py` | what a text mutant is: file, old text, new text, the test that dies |
| `core.py` | the core's faults, which are compiled in, with the models that notice; `core_room.py` plants them |
| `native.py`, `packages.py` | the text mutants of the binding and of the Python packages: those that `docs/explain/proof.md` names |
| `rooms.py` | the rooms by name |
| `tree.py` | the copy of the project that they are planted in |
| `room.py` | plants them and runs the tests |
"""
