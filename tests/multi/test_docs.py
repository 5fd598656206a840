"""The how-to and the examples in ``help()`` run as they are written."""

import doctest
import inspect
import re
from pathlib import Path

import pytest

from drainq import MultiQueue, MultiQueueStats, SubQueue, SubQueueStats

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "multi_queue.md"
CLASSES = [MultiQueue, MultiQueueStats, SubQueue, SubQueueStats]
PUBLIC = [
    (cls, name, member)
    for cls in CLASSES
    for name, member in vars(cls).items()
    if not name.startswith("_") and cls not in (MultiQueueStats, SubQueueStats)
]


def test_the_how_to_runs_from_top_to_bottom(capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", HOWTO.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 10
    exec(compile("\n".join(blocks), str(HOWTO), "exec"), {})
    assert capsys.readouterr().out


@pytest.mark.parametrize("documented", [*CLASSES, *(member for _, _, member in PUBLIC)], ids=repr)
def test_the_examples_in_help_run(documented):
    text = inspect.getdoc(documented)
    example = doctest.DocTestParser().get_doctest(text, {}, repr(documented), None, 0)
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example)
    assert runner.failures == 0


def test_there_are_examples_to_run():
    with_examples = [name for _, name, member in PUBLIC if ">>>" in (inspect.getdoc(member) or "")]
    assert len(with_examples) >= 8


@pytest.mark.parametrize("cls", CLASSES)
def test_every_public_name_has_help(cls):
    assert inspect.getdoc(cls)
    names = [name for name in vars(cls) if not name.startswith("_")]
    assert names
    if cls in (MultiQueueStats, SubQueueStats):
        assert all(name in cls.__doc__ for name in names)
    else:
        assert [name for name in names if not inspect.getdoc(getattr(cls, name))] == []
