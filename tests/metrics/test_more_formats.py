"""Ten more formats, written from their makers' specifications, are read as the maker wrote them or refused."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("pyarrow")

from drainq.cli import main
from drainq.columns import parse_access_log
from drainq.metrics import blocks
from drainq.metrics.errors import UserError
from drainq.metrics.job import run
from drainq.metrics.log_files import find
from drainq.metrics.log_formats import BUILT_IN, compiled, found_in
from drainq.sql import Database

from .logs import contents
from .test_log_formats import ALONE, LOGS, combined, common, iso, requests


def spaced(second, form):
    return time.strftime(form, time.gmtime(second))


def s3(r):
    return (
        f'79a59df9 bucket [{spaced(r[2], "%d/%b/%Y:%H:%M:%S +0000")}] {r[0]} arn:aws:iam::1:user/a 3E57427F3 REST.GET.OBJECT '
        f'a%2Fb "{r[4]}" {r[5]} - {r[6]} 4406583 {int(r[7] * 1000)} 28 "{r[8]}" "{r[9]}" -'
    )  # fmt: skip


def envoy(r):
    method, target, version = r[4].split(" ")[0], r[3], r[4].rpartition(" ")[2]
    return (
        f'[{iso(r[2])}] "{method} {target} {version}" {r[5]} - 0 {r[6]} {int(r[7] * 1000)} 7 "{r[0]}" "{r[9]}" "id-1" "e" '
        '"10.0.0.5:80"'
    )  # fmt: skip


def upstreams(r):
    return json.dumps(
        {"msec": f"{r[2]}.250", "remote_addr": r[0], "request_uri": r[3] + "?q=1", "status": str(r[5]), "bytes_sent": str(r[6]),
         "request_time": f"{r[7]:.3f}", "upstream_response_time": "0.001, 0.002 : 0.003", "upstream_status": "502, 200"}
    )  # fmt: skip


MS = lambda r: float(int(r[7] * 1000))  # noqa: E731
US = lambda r: round(r[7] * 1e6) / 1000  # noqa: E731
POINT = lambda r: 1000 * float(f"{r[7]:.3f}")  # noqa: E731
NONE = lambda r: None  # noqa: E731
READ = {
    "vhost_combined with %D": ('%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D',
                               lambda r: f"www.example.com:443 {combined(r)} {round(r[7] * 1e6)}", US, "both"),
    "Tomcat's common with %T": ('tomcat:%h %l %u %t "%r" %s %b %T', lambda r: f"{common(r)} {r[7]:.3f}", POINT, ""),
    "gunicorn's default": ('%(h)s %(l)s %(u)s %(t)s "%(r)s" %(s)s %(b)s "%(f)s" "%(a)s"', combined, NONE, "both"),
    "Varnish's NCSA": ('%h %l %u %t "%r" %s %b "%{Referer}i" "%{User-agent}i"', combined, NONE, "both"),
    "lighttpd's accesslog": ('%h %V %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"',
                             lambda r: combined(r).replace(" - ", " www.example.com ", 1), NONE, "both"),
    "S3's server access log": (
        '$owner $bucket [$time_local] $remote_addr $requester $id $operation $key "$request" $status $error $body_bytes_sent '
        '$object_size $duration_ms $turn "$http_referer" "$http_user_agent" $rest', s3, MS, "both"),
    "Envoy's default": (
        '[$time_iso8601] "$request" $status $flags $received $body_bytes_sent $duration_ms $service "$remote_addr" '
        '"$http_user_agent" "$id" "$authority" "$upstream"', envoy, MS, "agent"),
    "nginx' JSON with lists of upstreams": ("nginx_json", upstreams, POINT, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_format_is_read_as_its_maker_wrote_it(name):
    declaration, line, milliseconds, texts = READ[name]
    made = [r for seed in (1, 2) for r in requests(100, seed)]
    columns, bad = parse_access_log("".join(f"{line(r)}\n" for r in made).encode(), compiled(declaration))
    assert bad == []
    for row, r in zip(columns.to_pylist(), made, strict=True):
        took = milliseconds(r)
        assert row == {
            "client": r[0].encode(), "second": r[2], "endpoint": r[3].encode(), "status": r[5], "size": r[6],
            "referrer": r[8].encode() if texts == "both" else None, "agent": r[9].encode() if texts else None,
            "milliseconds": took and pytest.approx(took, rel=1e-12),
        }  # fmt: skip


def haproxy(r):
    at = spaced(r[2], "%d/%b/%Y:%H:%M:%S.123")
    return f'{r[0]}:4317 [{at}] http-in static/srv1 10/0/30/69/109 {r[5]} {r[6]} - - ---- 1/1/1/1/0 0/0 "{r[4]}"'


def iis(r):
    """Write a line as IIS does: a plus for a space, a comma at the end of a query, no bytes unless they are asked for."""
    return (
        f"{spaced(r[2], '%Y-%m-%d %H:%M:%S')} 10.0.0.1 GET {r[3]} ids=1,2, 80 DOM\\{r[1].replace(' ', '+')} {r[0]} "
        f"{(r[9] or '-').replace(' ', '+')} {r[8]} {r[5]} 0 64 {int(r[7] * 1000)}"
    )


def cloudfront(r):
    words = (
        spaced(r[2], "%Y-%m-%d"), spaced(r[2], "%H:%M:%S"), "FRA2-C1", r[6], r[0], "GET", "d1.cloudfront.net", r[3], r[5], r[8],
        (r[9] or "-").replace(" ", "%20"), "ids=1, 2", "-", "Hit", "SOX4xwn4XV6Q==", "d1.cloudfront.net", "https", 23,
        f"{r[7]:.3f}", "-", "TLSv1.2", "ECDHE-RSA", "Hit", "HTTP/2.0", "-", "-", 11040, "0.001", "Hit", "text/html", 78, "-", "-",
    )  # fmt: skip
    return "\t".join(map(str, words))


W3C = {
    "IIS": (iis, "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2025-03-29 22:00:00\n"
            "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) "
            "sc-status sc-substatus sc-win32-status time-taken \n", lambda r: (0, int(r[7] * 1000)), "+"),
    "CloudFront": (cloudfront, "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem "
                   "sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id "
                   "x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher "
                   "x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte "
                   "x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end\n",
                   lambda r: (r[6], 1000 * float(f"{r[7]:.3f}")), "%20"),
}  # fmt: skip
SAMPLES = {  # of IIS' and CloudFront's documentation
    "IIS": "2016-11-02 00:00:04 10.0.0.4 GET /default.htm - 80 - 203.0.113.7 Mozilla/5.0+(Windows+NT+10.0;+Win64;+x64) - 200 0 0 "
    "437\n",
    "CloudFront": "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\t"
    "Mozilla/5.0%20(Windows%20NT%2010.0;%20Win64;%20x64)%20AppleWebKit/537.36%20(KHTML,%20like%20Gecko)%20Chrome/78.0.3904.108"
    "%20Safari/537.36\t-\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\td111111abcdef8.cloudfront.net\t"
    "https\t23\t0.001\t-\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-\n",
}  # fmt: skip


@pytest.mark.parametrize("name", W3C)
def test_a_log_of_w3c_is_read_by_the_fields_that_it_declares(name, tmp_path, monkeypatch, capsys):
    line, header, counts, space = W3C[name]
    monkeypatch.setattr(blocks, "BLOCK", 3000)
    monkeypatch.setattr(blocks, "PIECE", 700)
    made = list(requests(90))
    parts = [header, SAMPLES[name], *(f"{line(r)}\r\n" for r in made[:40]), "#Remark: a restart\n", header,
             *(f"{line(r)}\n" for r in made[40:]), "noise\n"]  # fmt: skip
    log = tmp_path / "w3c.log"
    log.write_text("".join(parts))
    outcome = run([str(log)], out=tmp_path / "out", engine="local")
    assert (outcome.reconciled, outcome.parsed, outcome.bad) == (True, 91, 1)
    columns, _ = parse_access_log(log.read_bytes(), compiled(outcome.sources[0].format))
    for row, r in zip(columns.to_pylist()[1:], made, strict=True):
        size, took = counts(r)
        assert row == {
            "client": r[0].encode(), "second": r[2], "endpoint": r[3].encode(), "status": r[5], "size": size,
            "referrer": r[8].encode(), "agent": (r[9] or "-").replace(" ", space).encode(),
            "milliseconds": pytest.approx(took, rel=1e-12),
        }  # fmt: skip
    with Database(f"sqlite:///{tmp_path}/out/metrics.db") as database:
        [(number, kept)] = database.execute("SELECT line_number, line FROM bad_lines")
        [(total, size)] = database.execute("SELECT SUM(requests), SUM(bytes) FROM service_minute")
    assert (number, kept) == (log.read_bytes().count(b"\n"), "noise")
    assert (total, size) == (91, sum(counts(r)[0] for r in made) + (0 if name == "IIS" else 392))
    assert main(["metrics", str(log), "--explain"]) == 0
    said = capsys.readouterr().out
    assert said.count("    a directive, no request\n") == header.count("\n") and "bad line" not in said
    assert f"    milliseconds {437.0 if name == 'IIS' else 1.0}\n" in said


def test_spark_gives_the_tables_of_threads_for_each_format(spark, tmp_path):
    pytest.importorskip("pyspark")
    lines = {"common": common, "combined": combined, **{name: LOGS[name][0] for name in ALONE}}
    lines |= {name: line for name, (line, *_) in W3C.items()}
    assert not BUILT_IN.keys() - lines.keys()
    alike, named = [], []
    for seed, (name, line) in enumerate(lines.items()):
        log = tmp_path / name.replace(":", "_")
        text = "".join(f"{line(r)}\n" for r in requests(40, seed))
        log.write_text(f"{W3C[name][1] if name in W3C else ''}{text}bad\nbad {seed}\n")
        alike += [log] if len(found_in(text.encode())) == 1 else []
        named += [] if len(found_in(text.encode())) == 1 else [name]
    assert len(alike) > 20 and sorted(named) == sorted(
        f"{name}_{unit}" for name in ("common", "combined") for unit in ("us", "ms", "s")
    )
    for logs, format in ([alike, None], *([[tmp_path / name], name] for name in named)):
        found = []
        for engine, context in (("local", None), ("spark", spark.sparkContext)):
            out = tmp_path / f"{engine}-{format}"
            outcome = run([*map(str, logs)], out=out, engine=engine, context=context, format=format)
            assert (outcome.reconciled, outcome.parsed, outcome.bad) == (True, 40 * len(logs), 2 * len(logs))
            found.append(contents(f"sqlite:///{out}/metrics.db", raw=True))
        assert found[0] == found[1]
        assert format or all(found[0].values()), "each table has rows"


def test_a_log_of_w3c_is_followed_from_its_header_on_and_a_bad_line_does_not_end_that(tmp_path, following):
    line, header, *_ = W3C["IIS"]
    log = tmp_path / "u_ex250329.log"
    log.write_text(header)
    made = [f"{line(r)}\n" for r in requests(7)]
    rounds = iter([[*made[:1], "noise\n", "noise\n"], [header, *made[1:]]])

    def more() -> None:
        with log.open("a") as file:
            file.write("".join(next(rounds)))

    found = following(log, more, more)
    assert (found.outcome.parsed, found.outcome.bad, found.outcome.reconciled) == (7, 2, True)
    assert following.said == [f"{str(log)!r} is read as {header.splitlines()[3].strip()}"]


def test_a_log_of_w3c_that_cannot_be_read_whole_is_refused(tmp_path):
    line, header, *_ = W3C["IIS"]
    text = "".join(f"{line(r)}\n" for r in requests(9))
    for wrong in (header.replace(" date", ""), header.replace(" sc-status", ""), header.replace(" ", ",")):
        (tmp_path / "log").write_text(wrong + text)
        with pytest.raises(
            UserError, match="W3C extended log of which no line fits .* log date, time, cs-uri-stem and sc-"
        ):
            find(0, str(tmp_path / "log"))
    (tmp_path / "log").write_text(header + text * 9 + header.replace("s-ip cs-method", "cs-method s-ip") + text)
    with pytest.raises(
        UserError, match="changes its fields at its line '#Fields: date time cs-method s-ip .*split it there"
    ):
        run([str(tmp_path / "log")], out=tmp_path / "out", engine="local")
    with pytest.raises(ValueError, match="must have a day, got"):
        compiled("#Fields: time cs-uri-stem sc-status")
    assert found_in(header.encode()) == [header.split("\n")[3].strip()]


def whole_seconds(r):
    return cloudfront(r).replace(f"\t{r[7]:.3f}\t", f"\t{int(r[7])}\t")


def test_a_request_time_of_w3c_in_another_unit_is_never_read():
    for line, gap, time_taken in ((whole_seconds, "\t", "CloudFront"), (lambda r: f"{iis(r)}.001", " ", "IIS")):
        fields = W3C[time_taken][1].strip().rpartition("#Fields: ")[2]
        log = "".join(f"{line(r)}\n" for r in requests(20)).encode()
        columns, bad = parse_access_log(log, compiled(f"#Fields: {gap.join(fields.split())}"))
        assert (len(columns), {reason for *_, reason in bad}) == (0, {"no such number where the format has it"})


def caddy_strings(r):
    return json.dumps(
        {
            "ts": iso(r[2]),
            "request": {"client_ip": r[0], "uri": r[3]},
            "duration": f"{r[7]:.3f}s",
            "status": r[5],
            "size": r[6],
        }
    )


REFUSED = {
    "IIS' W3C without its header": iis, "CloudFront without its header": cloudfront,
    "Caddy with durations as texts": caddy_strings,
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_declaration_can_carry_is_refused_with_a_remedy_and_never_read_wrong(name, tmp_path, capsys):
    log = tmp_path / "log"
    log.write_text("".join(f"{REFUSED[name](r)}\n" for r in requests(60)))
    assert main(["metrics", str(log), "--engine", "local", "--out", str(tmp_path / "out"), "--quiet"]) != 0
    assert "--format" in capsys.readouterr().err
    columns, bad = parse_access_log(log.read_bytes())
    assert (len(columns), len(bad)) == (0, 60)


def test_a_log_of_haproxy_is_refused_by_its_name_with_a_line_that_is_read(tmp_path, capsys):
    log = tmp_path / "log"
    sample = (
        "Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 "
        '10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"\n'
    )
    for text in (sample, "".join(f"{haproxy(r)}\n" for r in requests(60))):
        log.write_text(text)
        assert main(["metrics", str(log), "--engine", "local", "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr().err
        assert (
            "a log of HAProxy, whose times have no zone; write it by log-format '%ci - - [%T] %{+Q}r %ST %B %Ta'"
            in said
        )
        columns, bad = parse_access_log(text.encode())
        assert (len(columns), len(bad)) == (0, text.count("\n"))
    remedy = "".join(f"{common(r)} {int(r[7] * 1000)}\n" for r in requests(60))
    assert parse_access_log(remedy.encode(), compiled("common_ms"))[1] == []
