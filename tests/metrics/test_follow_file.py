"""Following a file: each line is counted once, through rotation, truncation and the ends of commands."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pygal")

from drainq.metrics.errors import UserError
from drainq.metrics.follow import tail as tail_module
from drainq.metrics.follow.counted import Memory
from drainq.metrics.job import run
from tests.metrics.following import Following
from tests.metrics.logs import contents, lines, write

# A file of drainq that is left open is an error.
pytestmark = pytest.mark.filterwarnings("error:unclosed file <_io.BufferedReader name='.*access.log:ResourceWarning")


class Server:
    """Writes lines to a log, as a server does.

    Args:
        directory: of the log. It keeps all that it wrote in ``written``.
    """

    def __init__(self, directory: Path) -> None:
        self.log = directory / "access.log"
        self.written: list[str] = []
        self._seed = 0
        self.reopen()

    def write(self, count: int, *, whole: bool = True, last_end: bool = True) -> None:
        """Write lines; of the last one half if not ``whole``, or all but its line end, without ``last_end``."""
        self._seed += 1
        made = lines(count, self._seed)
        self.written += made
        text = "".join(f"{line}\n" for line in made)
        end = len(text) - (0 if whole else len(made[-1]) // 2) - (0 if last_end else 1)
        self._file.write(text[:end])
        self._file.flush()
        self._rest = text[end:]

    def end_line(self) -> None:
        self._file.write(self._rest)
        self._file.flush()

    def rotate(self) -> None:
        """Rename the logs, as logrotate does; the server goes on writing into the renamed one."""
        for number in (3, 2, 1):
            old = self.log.with_name(f"access.log.{number}")
            if old.exists():
                old.rename(self.log.with_name(f"access.log.{number + 1}"))
        self.log.rename(self.log.with_name("access.log.1"))

    def reopen(self) -> None:
        self._file = open(self.log, "a")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "var").mkdir()
    return Server(tmp_path / "var")


def expected(server: Server, tmp_path: Path) -> dict:
    """Return the tables after the command has loaded everything that the server wrote, as one log."""
    run([write(tmp_path / "oracle.log", server.written)], out=tmp_path / "oracle", engine="local")
    return contents(f"sqlite:///{tmp_path}/oracle/metrics.db", sources=False)


@pytest.mark.system
def test_ctrl_c_right_after_a_commit_comes_when_the_round_is_counted(following, server, monkeypatch, ctrl_c):
    keep = Memory.keep

    def interrupted_keep(*arguments):
        ctrl_c()
        keep(*arguments)

    server.write(7)
    monkeypatch.setattr(Memory, "keep", interrupted_keep)
    found = following(server.log)
    assert (found.interrupted, found.outcome.lines, found.outcome.parsed_in_tables) == (True, 7, 7)
    monkeypatch.undo()
    assert (following.requests(), following(server.log).outcome.lines) == (7, 0)


def test_too_many_bad_lines_are_a_complaint_at_the_end_of_each_following(following, server):
    server.write(199)
    with server.log.open("a") as log:
        log.write("secret\nsecret\n")
    for path in (server.log, server.log, server.log.parent):
        found = following(path, following.later)
        said = f"2 of 201 lines of '{server.log}' are bad, more than 0.5 %; the first is line 200: no 'client ident user [' at the start: secret"
        assert found.outcome.complaints == []
        assert following(path, max_bad=0.5).outcome.complaints == [said]
    server.write(200)
    assert following(server.log, max_bad=0.5).outcome.complaints == []


def test_a_log_that_was_rotated_before_the_file_was_followed_is_not_counted(following, server):
    write(server.log.with_name("access.log.8"), lines(9, seed=8))
    server.write(3)
    assert following(server.log).outcome.lines == 3
    old = write(server.log.with_name("access.log.7"), lines(50, seed=9))
    os.utime(old, (1, 1))
    server.rotate()
    server.reopen()
    server.write(2)
    assert (following(server.log).outcome.lines, following.said) == (2, [])


def test_a_rotation_while_lines_are_written_loses_none_and_counts_none_twice(following, server, tmp_path):
    server.write(20)
    found = following(
        server.log,
        lambda: (server.write(7), server.rotate()),
        lambda: server.write(11),  # into the renamed log: there is no new one yet
        lambda: (server.write(13), server.reopen(), server.write(17)),
        lambda: server.write(1, whole=False),
        lambda: (server.end_line(), server.rotate(), server.write(2), server.reopen(), server.write(3)),
        following.later,
        following.later,
    )
    assert contents(following.url, sources=False) == expected(server, tmp_path)
    assert found.outcome.reconciled and found.outcome.lines == len(server.written)
    assert found.uncounted == []
    assert len(following.ask("SELECT * FROM sources")) == 2, "what was rotated away is a log that was loaded"
    again = run([str(server.log.with_name("access.log.2"))], out=following.out, engine="local")
    assert again.sources[0].loaded_before


def test_the_line_numbers_of_bad_lines_go_on(following, server):
    server.write(4)

    def noise() -> None:
        server._file.write("noise\n")
        server._file.flush()

    following(server.log, noise, lambda: server.write(2))
    following(server.log, noise)
    noise()
    following(server.log)
    assert following.ask("SELECT source, line_number FROM bad_lines ORDER BY line_number") == [
        (str(server.log), 5), (str(server.log), 8), (str(server.log), 9),
    ]  # fmt: skip


def test_of_a_followed_file_the_first_bad_lines_are_kept(following, server, monkeypatch):
    def noise(lines: int) -> None:
        server._file.write("noise\n" * lines)
        server._file.flush()

    for steps in ((990, 2), (3, 20), (5, 7)):
        following(server.log, *(lambda lines=lines: noise(lines) for lines in steps))
    assert following.ask("SELECT COUNT(*), MAX(line_number) FROM bad_lines") == [(1_000, 1_000)]
    assert following.ask("SELECT lines FROM bad_reasons") == [(1_027,)]


def test_rotations_while_nobody_followed_are_caught_up_with(following, server, tmp_path):
    server.write(20)
    following(server.log)
    server.write(5)
    server.rotate()
    server.write(2)
    server.reopen()
    server.write(30)
    os.utime(server.log, (following.now, following.now))
    server.rotate()
    server.reopen()
    server.write(40)
    found = following(server.log, following.later, following.later)
    assert contents(following.url, sources=False) == expected(server, tmp_path)
    assert found.uncounted == []
    assert following.said == [f"{server.log!s}.1".join("''") + " was rotated away unseen, and is counted too"]


def test_a_truncated_log_is_counted_from_its_new_beginning(following, server):
    server.write(40)

    def copy_and_truncate(more: int) -> None:
        shutil.copy(server.log, server.log.with_name("access.log.1"))
        os.truncate(server.log, 0)
        server.write(more)

    found = following(server.log, lambda: copy_and_truncate(3), lambda: copy_and_truncate(90), lambda: server.write(2))
    assert following.requests() == len(server.written) == 135
    assert found.uncounted == [] and len(following.said) == 2
    assert "was truncated after byte" in following.said[0]


def test_a_log_that_appears_later_is_waited_for(following, tmp_path):
    log = tmp_path / "later.log"
    found = following(log, lambda: None, lambda: write(log, lines(5, 1)))
    assert (found.outcome.lines, following.said) == (5, [f"there is no file {str(log)!r} now; waiting for one"])


def test_what_the_command_had_loaded_is_not_counted_again(following, server):
    server.write(20)
    run([str(server.log)], out=following.out, engine="local")
    server.write(7)
    assert following(server.log).outcome.lines == 7
    assert following.said == [f"the first 20 lines of {str(server.log)!r} were loaded before; the others are counted"]
    assert following.requests() == 27


def test_the_command_refuses_a_log_that_is_followed(following, server, tmp_path):
    server.write(20)
    following(server.log)
    server.write(1)
    with pytest.raises(UserError, match="is followed, and 20 of its lines are counted; nothing was loaded"):
        run([str(server.log)], out=following.out, engine="local")
    assert following.requests() == 20


def test_a_directory_leaves_the_log_that_is_followed_alone(following, server):
    server.write(20)
    following(server.log)
    server.write(1)
    following(server.log.parent)
    assert following.requests() == 20
    assert following.said == [f"{str(server.log)!r} is left to the command that follows the file itself"]


def test_another_command_that_follows_the_same_file_is_found_out(following, server, tmp_path):
    server.write(20)
    following(server.log)

    def other() -> None:
        server.write(3)
        second = Following(tmp_path)
        second(server.log)

    with pytest.raises(UserError, match="another command counts"):
        following(server.log, other)
    assert following.requests() == 23


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_in_whatever_order_each_line_counts_once(following, server, tmp_path, monkeypatch, seed):
    monkeypatch.setattr(tail_module, "MOST", 700)
    monkeypatch.setattr(tail_module, "TASK", 300)
    dice = random.Random(seed)
    waiting = False

    def step() -> None:
        nonlocal waiting
        for _ in range(dice.randrange(1, 4)):
            what = dice.choice(["write", "half", "rotate", "reopen", "later", "write"])
            if what == "write" and not waiting:
                server.write(dice.randrange(1, 30))
            elif what == "half":
                server.end_line() if waiting else server.write(1, whole=False)
                waiting = not waiting
            elif what == "rotate" and server.log.exists() and not waiting:
                server.rotate()
            elif what == "reopen" and not waiting:
                server.reopen()
            elif what == "later" and not waiting:
                following.later(3)

    for _ in range(4):
        following(server.log, *[step] * dice.randrange(1, 8))
    if waiting:
        server.end_line()
    server.reopen()
    server.write(1)
    following(server.log, following.later, following.later)
    assert contents(following.url, sources=False) == expected(server, tmp_path)
    assert not [sentence for sentence in following.said if "truncated" in sentence]
