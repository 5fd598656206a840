"""The command: exit codes, and one line for a user's mistake."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import drainq
from drainq.cli import COMMANDS, build_parser, main
from tests.passwords import MISTYPED, PASSWORDS, URLS

pytest.importorskip("pyarrow")


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "a.log"
    path.write_text('h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1\n')
    return str(path)


def mistakes(tmp_path, log):
    cut_off = tmp_path / "cut.gz"
    cut_off.write_bytes(gzip.compress(b"x" * 10_000)[:-10])
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes((whole := gzip.compress(bytes(range(256)) * 9))[:20] + b"\xff" * 40 + whole[60:])
    (tmp_path / "file").touch()
    out = ["--out", str(tmp_path / "out")]
    return {
        "no command": ([], "COMMAND"),
        "unknown command": (["nope"], "nope"),
        "unknown option": (["metrics", log, "--nope", *out], "--nope"),
        "no log": (["metrics", *out], "name logs, or what to --follow"),
        "two ways": (["metrics", log, "--follow", log, *out], "name logs, or what to --follow: one of the two"),
        "missing log": (["metrics", str(tmp_path / "missing.log"), *out], "missing.log"),
        "a directory": (["metrics", str(tmp_path), *out], "is a directory"),
        "NUL in the name": (["metrics", "a\0b", *out], "cannot read"),
        "gzip cut off": (["metrics", str(cut_off), *out], "no complete gzip file"),
        "gzip damaged": (["metrics", str(damaged), *out], "no complete gzip file"),
        "bad URL": (["metrics", log, "--db", "mysql://u:s3cret@h/d", *out], "sqlite:///relative.db"),
        "no such directory": (["metrics", log, "--db", f"sqlite:///{tmp_path}/no/x.db", *out], "cannot open"),
        "no server": (["metrics", log, "--db", "postgresql://u:s3cret@127.0.0.1:1/d", *out], "cannot open"),
        "out is a file": (["metrics", log, "--out", str(tmp_path / "file")], "--out"),
        "top of none": (["metrics", log, "--top", "0", *out], "'0'"),
        "unknown door": (["metrics", log, "--door", "window", *out], "window"),
    }


def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(tmp_path, log, capsys):
    for name, (arguments, said) in mistakes(tmp_path, log).items():
        try:
            code = main(arguments)
        except SystemExit as stopped:
            code = stopped.code
        out, err = capsys.readouterr()
        assert code == 2, name
        assert said in err and err.count("\n") == 1 and "Traceback" not in err and "s3cret" not in err, (name, err)
        assert out == "", name


def test_the_help_documents_every_table(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["metrics", "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    times = "p50_ms REAL, p90_ms REAL, p99_ms REAL, latency BLOB"
    counts = "requests INTEGER, bytes INTEGER, errors INTEGER"
    assert re.findall(r"^  (\w+)\((.*)\)$", text, re.MULTILINE) == [
        ("service_minute", f"minute TEXT, {counts}, {times}"),
        ("endpoint_minute", f"endpoint TEXT, minute TEXT, {counts}, {times}"),
        ("status_minute", "status INTEGER, minute TEXT, requests INTEGER"),
        ("client_hour", f"client TEXT, hour TEXT, {counts}"),
        ("user_agent_day", "user_agent TEXT, day TEXT, requests INTEGER"),
        ("referrer_day", "referrer TEXT, day TEXT, requests INTEGER"),
        ("top_endpoints", "rank INTEGER, endpoint TEXT, requests INTEGER, bytes INTEGER"),
        ("bad_lines", "source TEXT, line_number INTEGER, line TEXT, reason TEXT"),
        ("bad_reasons", "source TEXT, reason TEXT, lines INTEGER"),
        ("sources", "sha256 TEXT, source TEXT, lines INTEGER, parsed INTEGER, bad INTEGER, loaded_at TEXT"),
        ("followed", "directory TEXT, inode TEXT, name TEXT, bytes INTEGER, changed INTEGER, lines INTEGER, "
         "parsed INTEGER, bad INTEGER, head TEXT, sha256 TEXT"),
    ]  # fmt: skip


def test_an_empty_log_is_done_without_spark_and_quietly(tmp_path):
    empty = tmp_path / "empty.log"
    empty.touch()
    done = subprocess.run(
        [sys.executable, "-m", "drainq.cli", "metrics", str(empty), "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 read = 0 parsed + 0 bad" in done.stdout
    assert (tmp_path / "out" / "report.html").exists() and not (tmp_path / "out" / "spark.log").exists()


def test_the_command_is_quick_to_ask_and_needs_no_extra(tmp_path):
    blocked = "import sys; sys.modules.update(dict.fromkeys(('pyarrow', 'pyspark', 'numpy', 'pygal', 'psycopg')));"
    run = f"{blocked} from drainq.cli import main; sys.exit(main(sys.argv[1:]))"
    for arguments, code in ((["--help"], 0), (["metrics", "--help"], 0), (["metrics", "x.log"], 2)):
        done = subprocess.run([sys.executable, "-c", run, *arguments], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        assert done.stdout.startswith("usage: drainq") is (code == 0)
    assert "pip install 'drainq[metrics]'" in done.stderr and done.stderr.count("\n") == 1


WRONG_LINES = [
    ["metrics", "a.log", "--database", "{}"],
    ["metrics", "a.log", "--database={}"],
    ["metrics", "{}"],
    ["metrics", "a.log", "--db"],
    ["metrics", "a.log", "--top", "{}"],
    ["metrics", "a.log", "--door", "{}"],
    ["{}"],
    ["delayed", "{}"],
    ["delayed", "stats", "--URL", "{}"],
    ["delayed", "stats", "--queue=mail", "--url", "{}", "{}"],
]
"""Command lines in which a URL stands in the wrong place."""


@pytest.mark.parametrize("line", WRONG_LINES, ids=" ".join)
def test_a_command_line_that_is_refused_shows_no_password(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for shape in [*URLS, *MISTYPED]:
        for password in PASSWORDS:
            url = shape.replace("{}", password)
            with contextlib.suppress(SystemExit):
                main([word.replace("{}", url) for word in line])
            shown = "".join(capsys.readouterr())
            assert shown and "X7" not in shown, (url, shown)


def test_a_wrong_option_points_to_the_help_of_its_command(capsys):
    for words, command in (
        ("--bogus", "drainq"),
        ("metrics --bogus", "drainq metrics"),
        ("top 9464 --bogus", "drainq top"),
        ("delayed stats sqlite:///x.db q --bogus", "drainq delayed stats"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words.split())
        out, err = capsys.readouterr()
        assert (ended.value.code, out) == (2, "") and err.count("\n") == 1, words
        assert err.endswith(f"(see {command} --help)\n") and err.startswith(f"{command}: "), err


def test_the_package_itself_is_the_command():
    done = subprocess.run([sys.executable, "-m", "drainq", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"drainq {drainq.__version__}\n"


@pytest.fixture
def ending(monkeypatch):
    """Returns a function that runs a command that ends with an error; ``ending.pipes`` is what replaces the output."""

    def main_with(error):
        def run(arguments):
            raise error

        parser = SimpleNamespace(parse_known_args=lambda words: (SimpleNamespace(run=run), []))
        output = SimpleNamespace(fileno=lambda: 77)
        monkeypatch.setattr("drainq.cli.sys", SimpleNamespace(stdout=output, stderr=sys.stderr))
        monkeypatch.setattr("drainq.cli.build_parser", lambda first: parser)
        return main(["top"])

    main_with.pipes = []
    fake = SimpleNamespace(devnull="null", O_WRONLY=1, open=lambda *_: _, dup2=lambda *_: main_with.pipes.append(_))
    monkeypatch.setattr("drainq.cli.os", fake)
    return main_with


def test_an_error_is_one_line_and_so_is_ctrl_c_and_a_reader_that_has_ended_is_no_error(ending, capsys):
    assert (ending(drainq.DrainqError("a\n  b")), *capsys.readouterr()) == (2, "", "drainq: a b\n")
    assert (ending(KeyboardInterrupt()), *capsys.readouterr()) == (130, "", "drainq: interrupted\n")
    assert (ending(BrokenPipeError()), *capsys.readouterr()) == (0, "", "") and ending.pipes == [(("null", 1), 77)]
    with pytest.raises(ConnectionResetError):
        ending(ConnectionResetError("a fault, and no reader that has ended"))


def test_a_command_line_loads_only_its_command():
    for command, found in (("top", ["top"]), (None, list(COMMANDS)), ("nope", list(COMMANDS))):
        (commands,) = (action for action in build_parser(command)._actions if action.dest == "==SUPPRESS==" and action.choices)  # fmt: skip
        assert list(commands.choices) == found


ELSEWHERE = {"--list-modules", "--add-modules", "--force-reinstall"}
"""Options of Java and pip that the package names."""


def options_of(parser):
    for action in parser._actions:
        yield from action.option_strings
        for command in action.choices.values() if isinstance(action, argparse._SubParsersAction) else ():
            yield from options_of(command)


def test_every_option_that_a_text_names_exists():
    named = {
        (option, module.name)
        for module in Path(drainq.__file__).parent.rglob("*.py")
        for text in re.findall(r'"[^"\n]*"', module.read_text())
        for option in re.findall(r"(?<![\w(-])--[a-z][a-z-]+(?![\w-]*:)", text)
    }
    assert len(named) > 40
    known = {*options_of(build_parser()), *ELSEWHERE}
    assert not [one for one in sorted(named) if one[0] not in known]
