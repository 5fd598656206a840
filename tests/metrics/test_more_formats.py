"""Ten more formats, written from their makers' specifications, are read as the maker wrote them or refused."""

from __future__ import annotations

import json
import time

import pytest

pytest.importorskip("pyarrow")

from drainq.cli import main
from drainq.columns import parse_access_log
from drainq.metrics.log_formats import compiled

from .test_log_formats import combined, common, iso, requests


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


def w3c(r):
    return (
        f"{spaced(r[2], '%Y-%m-%d %H:%M:%S')} 10.0.0.1 GET {r[3]} - 80 - {r[0]} curl/8 - {r[5]} 0 0 {int(r[7] * 1000)}"
    )


def cloudfront(r):
    words = (spaced(r[2], "%Y-%m-%d"), spaced(r[2], "%H:%M:%S"), "FRA2", r[6], r[0], "GET", "d.e.net", r[3], r[5])
    return "\t".join(map(str, words))


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
    "HAProxy's HTTP log": haproxy, "IIS' W3C": w3c, "CloudFront": cloudfront,
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
