"""Logs in the formats of many servers give the rows that their maker wrote, by a declaration or found alone.

The lines are written from the formats' public specifications, and the truth stands beside them: nothing here reads a line.
"""

from __future__ import annotations

import json
import random
import time

import pytest

pytest.importorskip("pyarrow")

from drainq.cli import main
from drainq.columns import parse_access_log
from drainq.metrics.errors import UserError
from drainq.metrics.job import run
from drainq.metrics.log_files import find
from drainq.metrics.log_formats import BUILT_IN, compiled, found_in, table_of, unwrapped
from drainq.sql import Database

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def requests(count, seed=5):
    """Make requests: (client, user, second, path, request, status, size, seconds, referrer, agent)."""
    dice = random.Random(seed)
    for number in range(count):
        path = dice.choice(["/", "/index.html", "/a/b%20c", f"/api/{dice.randrange(20)}", "/long/" + "x" * 1500])
        request = f"{dice.choice(['GET', 'POST'])} {path}{dice.choice(['', '?q=1', '?q=[a] b'])} HTTP/1.1"
        yield (
            dice.choice([f"10.0.0.{dice.randrange(9)}", f"2001:db8::{dice.randrange(9):x}", "::1"]),
            dice.choice(["-", "alice", "bob smith"]), 1_743_285_600 + 17 * number, path, request,
            dice.choice([200, 200, 204, 304, 404, 499, 502]), dice.choice([0, 12, 345, 2**33]),
            1 + dice.randrange(9_000_000) / 1e6, dice.choice(["-", 'https://e/?x=\\"y\\"']),
            dice.choice(["-", "curl/8.5.0", 'Moz \\"quoted\\" \\\\ back', ""]),
        )  # fmt: skip


def clf(second):
    t = time.gmtime(second + 5400)
    clock = time.strftime("%H:%M:%S", t)
    return f"{t.tm_mday:02d}/{MONTHS[t.tm_mon - 1]}/{t.tm_year}:{clock} +0130"


def iso(second):
    return time.strftime("%Y-%m-%dT%H:%M:%S.123456Z", time.gmtime(second))


def common(r):
    return f'{r[0]} - {r[1]} [{clf(r[2])}] "{r[4]}" {r[5]} {r[6] or "-"}'


def combined(r):
    return f'{common(r)} "{r[8]}" "{r[9]}"'


def alb(r):
    return (
        f'h2 {iso(r[2])} app/lb/50dc6c495c0c9188 {r[0]}:2817 10.0.0.1:80 0.000 {r[7]:.3f} 0.000 {r[5]} {r[5]} 34 {r[6]} '
        f'"{r[4].replace(" /", " http://www.example.com:80/", 1)}" "{r[9]}" - - arn:aws:x "Root=1" "-" "-" 0 - "forward" "-"'
    )  # fmt: skip


def caddy(r):
    headers = {"Accept": ["*/*"], "Referer": [r[8]], "User-Agent": [r[9], "second"]}
    request = {"remote_ip": "10.9.9.9", "remote_port": "1", "client_ip": r[0], "proto": "HTTP/2.0", "method": "GET",
               "host": "e", "uri": f"{r[3]}?q=1", "headers": headers, "tls": {"resumed": False, "proto": "h2"}}  # fmt: skip
    return json.dumps(
        {"level": "info", "ts": r[2] + 0.25, "logger": "http.log.access", "msg": "handled request", "request": request,
         "bytes_read": 0, "user_id": "", "duration": r[7], "size": r[6], "status": r[5], "resp_headers": headers}
    )  # fmt: skip


def traefik(r):
    return json.dumps(
        {"ClientAddr": f"{r[0]}:52106", "ClientHost": r[0], "ClientPort": "52106", "DownstreamContentSize": r[6],
         "DownstreamStatus": r[5], "Duration": round(r[7] * 1e9), "OriginDuration": 7, "OriginStatus": 0,
         "RequestPath": f"{r[3]}?q=1", "RequestProtocol": "HTTP/1.1", "StartLocal": iso(r[2] + 3600), "StartUTC": iso(r[2]),
         "level": "info", "msg": "", "time": iso(r[2] + 9), "request_Referer": r[8], "request_User-Agent": r[9]},
        separators=(",", ":"),
    )  # fmt: skip


def nginx(r):
    return json.dumps(
        {"time_local": clf(r[2]), "remote_addr": r[0], "remote_user": r[1], "request": r[4], "status": str(r[5]),
         "body_bytes_sent": str(r[6]), "request_time": f"{r[7]:.3f}", "http_referer": r[8], "http_user_agent": r[9],
         "upstream_response_time": ""},
        ensure_ascii=False,
    )  # fmt: skip


SEEN = {  # the milliseconds that a format has of a request of s seconds
    "us": lambda s: round(s * 1e6) / 1000,
    "ms": lambda s: float(int(s * 1000)),
    "s": lambda s: 1000.0 * int(s),
    "point": lambda s: 1000 * float(f"{s:.3f}"),
    "none": lambda s: None,
}
LOGS = {
    "combined_us": (lambda r: f"{combined(r)} {round(r[7] * 1e6)}", "us"),
    "combined_ms": (lambda r: f"{combined(r)} {int(r[7] * 1000)}", "ms"),
    "combined_s": (lambda r: f"{combined(r)} {int(r[7])}", "s"),
    "common_us": (lambda r: f"{common(r)} {round(r[7] * 1e6)}", "us"),
    "common_ms": (lambda r: f"{common(r)} {int(r[7] * 1000)}", "ms"),
    "common_s": (lambda r: f"{common(r)} {int(r[7])}", "s"),
    "vhost_combined": (lambda r: f"www.example.com:443 {combined(r)}", "none"),
    "combinedio": (lambda r: f"{combined(r)} 300 {r[6] + 200}", "none"),
    "nginx_main": (lambda r: f'{combined(r)} "10.0.0.9, 10.0.0.8"', "none"),
    "nginx_main_time": (lambda r: f'{combined(r)} "-" {r[7]:.3f}', "point"),
    "nginx_times": (lambda r: f"{combined(r)} {r[7]:.3f} 0.001, 0.002 : 0.003", "point"),
    "nginx_named_times": (lambda r: f'{combined(r)} rt={r[7]:.3f} uct="0.000" uht="-" urt="0.1, 0.2"', "point"),
    "ingress_nginx": (
        lambda r: f"{combined(r)} 812 {r[7]:.3f} [default-shop-80] [] 10.1.2.3:80, 10.1.2.4:80 0, 7 0.1, 0.2 502, 200 abc",
        "point",
    ),
    "traefik": (lambda r: f'{combined(r)} 7 "shop@docker" "http://10.0.0.9:80" {int(r[7] * 1000)}ms', "ms"),
    "alb": (alb, "point"),
    "syslog:nginx_main": (lambda r: f'<190>Mar 29 22:00:00 web1 nginx: {combined(r)} "-"', "none"),
    "syslog:vhost_combined": (lambda r: f"2025-03-29T22:00:00Z web1 httpd[7]: www:80 {combined(r)}", "none"),
    "syslog:combined": (lambda r: f"<190>1 2025-03-29T22:00:00Z web1 nginx - - - {combined(r)}", "none"),
    "cri:combined": (lambda r: f"2025-03-29T22:00:00.000000000Z stdout F {combined(r)}", "none"),
    "docker:nginx_main": (
        lambda r: json.dumps({"log": f'{combined(r)} "-"\n', "stream": "stdout", "time": "2025-03-29T22:00:00.0Z"}),
        "none",
    ),
    "cri:common": (lambda r: f"2025-03-29T22:00:00.000000000Z stdout F {common(r)}", "none"),
    "tomcat:%h %l %u %t \"%r\" %s %b %D": (lambda r: f"{common(r)} {int(r[7] * 1000)}", "ms"),
    "tomcat:%h %l %u %t \"%r\" %s %b %T": (lambda r: f"{common(r)} {r[7]:.3f}", "point"),
    "caddy_json": (caddy, "us"),
    "traefik_json": (traefik, "us"),
    "nginx_json": (nginx, "point"),
    "cri:caddy_json": (lambda r: f"2025-03-29T22:00:00.000000000Z stdout F {caddy(r)}", "us"),
    "docker:nginx_json": (lambda r: json.dumps({"log": f"{nginx(r)}\n", "stream": "stdout"}), "point"),
    '{ \\"time\\":\\"%t\\", \\"a\\":[\\"%a\\"], \\"r\\":\\"%m %U%q %H\\", \\"s\\":%>s, \\"b\\":%B, \\"us\\":%D }': (
        lambda r: json.dumps({"time": f"[{clf(r[2])}]", "a": r[0], "r": r[4], "s": r[5], "b": r[6], "us": r[7] * 1e6}), "us",
    ),
    '%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%({Referer}i)s" "%({User-Agent}i)s" %(D)s': (
        lambda r: f"{combined(r)} {round(r[7] * 1e6)}", "us",
    ),
    '%{X-Forwarded-For}i %l %u %t \\"%m %U%q %H\\" %>s %B %{us}T "%r"': (
        lambda r: f'{r[0]}, 10.9.9.9 - {r[1]} [{clf(r[2])}] "GET {r[3]} HTTP/1.1" {r[5]} {r[6]} {round(r[7] * 1e6)} "{r[4]}"',
        "us",
    ),
    '$msec $remote_addr "$request_method $request_uri" $status $bytes_sent ${request_time}s': (
        lambda r: f'{r[2]}.999 {r[0]} "GET {r[3]}?x=y" {r[5]} {r[6]} {r[7]:.3f}s', "point",
    ),
    '[$time_iso8601] $remote_addr "$uri" $status $body_bytes_sent': (
        lambda r: f'[{iso(r[2] + 5400)[:19]}+01:30] {r[0]} "{r[3]}" {r[5]} {r[6]}', "none",
    ),
}  # fmt: skip
ALONE = [name for name in LOGS if name.partition(":")[2].partition(" ")[0] in BUILT_IN or name in BUILT_IN]


def truth(name, r):
    """Return the record of a request, as far as the format has it."""
    table = compiled(name)[1]
    names = [text if any(meaning == kind for _, meaning, _ in table) else None
             for kind, text in (("referrer", r[8].encode()), ("agent", r[9].encode()))]  # fmt: skip
    if compiled(name)[2] is None:
        names = [text or None for text in names]
    milliseconds = SEEN[LOGS[name][1]](r[7])
    return (
        r[0].encode(),
        r[2],
        r[3].encode(),
        r[5],
        r[6],
        *names,
        milliseconds and pytest.approx(milliseconds, rel=1e-12),
    )


@pytest.mark.parametrize("name", LOGS)
def test_a_declared_format_is_read_as_it_was_written(name):
    made = list(requests(300))
    text = "".join(f"{LOGS[name][0](r)}\r\n" for r in made).encode()
    columns, bad = parse_access_log(unwrapped(text, name), compiled(name))
    assert bad == []
    assert [tuple(row.values()) for row in columns.to_pylist()] == [truth(name, r) for r in made]


def test_a_format_is_found_from_the_first_lines_unless_a_number_may_mean_two_things():
    for name in ALONE:
        found = found_in("".join(f"{LOGS[name][0](r)}\n" for r in requests(60)).encode())
        family, _, unit = name.partition("_")
        others = [f"{family}_{other}" for other in ("us", "ms", "s")]
        assert sorted(found) == (sorted(others) if unit in ("us", "ms", "s") else [name]), name
    for line in (
        common,
        combined,
        lambda r: f"{combined(r)} {r[7]:.3f}",
        lambda r: f"{common(r)} {r[7]:.6f}",
        lambda r: "no",
    ):
        assert found_in("".join(f"{line(r)}\n" for r in requests(60)).encode()) == [""]
    mixed = [common(r) if r[2] % 2 else combined(r) for r in requests(60)]
    assert found_in("\n".join(mixed).encode()) == [""] == found_in(b"")


def test_the_job_reads_each_log_by_its_own_format(tmp_path, capsys):
    made, paths = list(requests(60)), {}
    for name in ("vhost_combined", "alb", "cri:combined", "combined_us"):
        paths[name] = tmp_path / f"{name.replace(':', '_')}.log"
        paths[name].write_text("".join(f"{LOGS[name][0](r)}\n" for r in made))
    unclear = str(paths.pop("combined_us"))
    outcome = run([*map(str, paths.values())], out=tmp_path / "out", engine="local")
    assert (outcome.reconciled, outcome.bad, [log.format for log in outcome.sources]) == (True, 0, list(paths))
    with Database(f"sqlite:///{tmp_path}/out/metrics.db") as database:
        [found] = database.execute("SELECT SUM(requests), SUM(bytes), SUM(errors) FROM service_minute")
        clients = {client for (client,) in database.execute("SELECT client FROM client_hour")}
    assert found == (180, 3 * sum(r[6] for r in made), 3 * sum(r[5] >= 400 for r in made))
    assert clients == {r[0] for r in made}
    with pytest.raises(UserError, match="fit the formats combined_us, combined_ms, combined_s, which .* --format"):
        find(0, unclear)
    assert run([unclear], out=tmp_path / "us", engine="local", format="combined_us").parsed == 60
    assert main(["metrics", unclear, "--explain", "--format", "combined_ms"]) == 0
    said = capsys.readouterr().out
    assert said.count("\nline ") == 10 and f"    milliseconds {round(made[0][7] * 1e6):.1f}\n" in said


JSON = '{"t":"$msec","who":{"ip":"$remote_addr","by":"$realip_remote_addr"},"u":"$uri","s":"$status","b":"$bytes_sent",' \
    '"h":{"ref":"$http_referer","agent":"$http_user_agent"},"d":"$duration_ms"}'  # fmt: skip


def read_by_python(line):
    """Return the record of a line by ``JSON``, as Python's json reads it, or None."""
    try:
        line = json.loads(line)
        first = lambda value: (value[0] if value else None) if isinstance(value, list) else value  # noqa: E731
        who, head = line.get("who") or {}, line.get("h") or {}
        if not isinstance(who, dict) or not isinstance(head, dict):
            return None
        text = [
            first(value) or None
            for value in (who.get("ip"), who.get("by"), line.get("u"), head.get("ref"), head.get("agent"))
        ]
        if not all(value is None or isinstance(value, str) for value in text):
            return None
        ip, by, path, referrer, agent = (value and value.encode(errors="surrogatepass") for value in text)
        amount = line.get("d")
        milliseconds = None if amount in (None, "", "-") else float(amount)
        size = line.get("b")
        second, status = int(float(line["t"])), int(line["s"])
        return (ip or by or b"-", second, path.split(b"?")[0], status, int(size or 0), referrer, agent, milliseconds)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def test_of_two_fields_for_a_column_an_object_of_json_has_the_one_of_the_lower_rank_first_in_any_order():
    keys = {"peer": "$http_x_forwarded_for", "ip": "$remote_addr", "t": "$msec", "u": "$uri", "s": "$status"}
    turned = dict(reversed(keys.items()))
    assert compiled(json.dumps(keys)) == compiled(json.dumps(turned))
    assert [path for path, *_ in compiled(json.dumps(keys))[1] if path in ("ip", "peer")] == ["ip", "peer"]


def test_lines_of_json_are_read_as_python_reads_them():
    dice, lines = random.Random(3), []
    texts = ["", None, "-", "a", 'q"\\/\b\n\u00e9\U0001f600', "\udcff", ["x", "y"], [], ["é"], [None]]
    for _ in range(4000):
        fields = [
            ("t", dice.choice([1_743_285_600, 1743285600.75, "1743285600.125", 1.7e9, None, "no"])),
            ("who", dice.choice([{"ip": "::1", "by": "10.0.0.9"}, {"ip": dice.choice(["", None, []]), "by": ["10.0.0.1"]}, None, {}])),
            ("u", dice.choice(["/a", "/a?b=c", ["/é"], "/" + "x" * 300, None, ""])),
            ("s", dice.choice([200, "404", 0, None])), ("b", dice.choice([0, 12, "17", "", None, 2**33])),
            ("h", dice.choice([None, {"ref": dice.choice(texts), "agent": dice.choice(texts), "x": {"ref": [1, {"agent": 2}]}}])),
            ("d", dice.choice([0, 1, 0.25, 1.5e-05, 7.123456789012345, "12", None, "-"])),
            ("deep", {"t": [1, {"u": None}], "s": 1e300}), ("tt", 1), ("", "\\"),
        ]  # fmt: skip
        dice.shuffle(fields)
        cut = dice.choice([len(fields)] * 3 + [5])
        line = json.dumps(
            dict(fields[:cut]), ensure_ascii=dice.random() < 0.5, separators=dice.choice([None, (",", ":")])
        )
        line = (
            line.replace("u", "\\u0075") if dice.random() < 0.05 and "\\" not in line and "null" not in line else line
        )
        end = dice.choice([None] * 9 + [dice.randrange(len(line))])
        lines.append(line[:end].encode(errors="surrogatepass"))
    columns, bad = parse_access_log(b"\n".join(lines) + b"\n", compiled(JSON))
    places = {place for place, *_ in bad}
    truths = [read_by_python(line) for line in lines]
    assert [line for place, line in enumerate(lines) if (truths[place] is None) != (place in places)] == []
    assert [tuple(row.values()) for row in columns.to_pylist()] == [row for row in truths if row is not None]
    assert len(columns) > 500 and len(bad) > 500
    reasons = {reason for *_, reason in bad}
    assert reasons == {
        "cut off in the JSON", "no object of JSON", "empty line", "no such time",
        "no time, path or status under the keys that the format has"
    }  # fmt: skip
    columns, bad = parse_access_log(b'no\n\n{"s":1}{\n{"who":7}\n\xff', compiled(JSON))
    assert [reason for *_, reason in bad] == [
        "no object of JSON", "empty line", "no object of JSON", "no value of that kind where the format has it",
        "no object of JSON",
    ]  # fmt: skip


def test_json_with_other_keys_is_refused_with_a_declaration_to_fill_in(tmp_path):
    log = tmp_path / "log"
    log.write_text('{"when":1,"url":"secret"}\n' * 9)
    with pytest.raises(UserError, match=r"JSON with keys that are not known; .* --format '\{") as error:
        find(0, str(log))
    assert "secret" not in str(error.value)


def test_a_followed_file_is_read_by_its_format(tmp_path, following):
    log = tmp_path / "access.log"
    rows = [f"{LOGS['alb'][0](r)}\n" for r in requests(60)]
    log.write_text("".join(["noise\n" * 9, *rows[:50]]))

    def more() -> None:
        with log.open("a") as file:
            file.write("".join(["noise\n" * 30, *rows[50:]]))

    found = following(log, more)
    assert (found.outcome.parsed, found.outcome.bad) == (60, 39)
    assert following.said == [f"{str(log)!r} is read as alb"]


def test_what_is_no_declaration_is_refused(capsys):
    cases = {
        "rubbish": "one of common, combined",
        "$remote_addr $status": "a time, a path",
        "%h %t %r": "a status",
        '{"t":"$msec","u":"$uri","s":"is $status"}': "must have a status",
        "{": "an object of JSON with their fields",
        '$remote_addr$status [$time_local] "$request"': "must have a text between two fields",
    }
    for wrong, told in cases.items():
        with pytest.raises(SystemExit):
            main(["metrics", "log", "--format", wrong])
        assert told in capsys.readouterr().err, wrong
    assert table_of("") is table_of("combined") is None


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_are_a_record_or_have_a_reason(seed):
    dice = random.Random(seed)
    for name, (line, _) in LOGS.items():
        lines = []
        for r in requests(60, seed):
            text = bytearray(line(r).encode())
            for _ in range(dice.randrange(6)):
                begin = dice.randrange(len(text) + 1)
                text[begin : begin + dice.choice((0, 1, 5, 40))] = dice.choice(
                    (b"", b'"', b"\\", b" ", b":", b"[", b"-", b"T", b"<", b">1 ", b", ", b"\xff", dice.randbytes(3))
                )
            lines.append(bytes(text).replace(b"\n", b" "))
        lines += [lines[0][:length] for length in range(60)]
        lines += [b"[" * 100_000, b'{"log":1}', b'{"log":"a\\nb\\ud800"}']
        columns, bad = parse_access_log(unwrapped(b"\n".join(lines) + b"\n", name), compiled(name))
        columns.validate(full=True)
        assert len(columns) + len(bad) == len(lines) and all(reason for *_, reason in bad)


def test_records_with_and_without_a_referrer_keep_their_names_apart():
    agent_alone, both = '$remote_addr [$time_local] "$request" $status', '"$http_referer"'
    table = compiled(f'{agent_alone} "$http_user_agent"')
    line = b'::1 [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 "curl"\n'
    columns, _ = parse_access_log(line * 10, table)
    assert (columns["referrer"].null_count, columns["agent"].to_pylist()) == (10, [b"curl"] * 10)
    columns, _ = parse_access_log(line * 10, compiled(f"{agent_alone} {both}"))
    assert (columns["agent"].null_count, columns["referrer"].to_pylist()) == (10, [b"curl"] * 10)
