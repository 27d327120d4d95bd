"""The viewer serves the UI and one trace to this user alone, asks nothing of any network, and leaves nothing behind."""

from __future__ import annotations

import base64
import hashlib
import http.client
import importlib.util
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.errors import MissingPackage, OutputRefused
from gpuledger.export.perfetto_server import Viewer, content_policy, ui_files
from support.command import PATIENCE_S, gpuledger
from support.profiles.nsys_exports import call, kernel, minimal

pytest.importorskip("viztracer")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    return minimal(tmp_path / "run.sqlite", KERNEL=[kernel(10, 20)], RUNTIME=[call(0, 5)])


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    trace = tmp_path_factory.mktemp("view") / "a b.pftrace"
    trace.write_bytes(b"the trace")
    with trace.open("rb") as file, Viewer(file, trace.name) as started:
        yield started


def ask(
    viewer: Viewer, path: str, *, method: str = "GET", host: str | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server_port, timeout=PATIENCE_S)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", viewer.names[0] if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


# Examples


def test_the_ui_and_the_trace_are_served(viewer: Viewer) -> None:
    code, headers, body = ask(viewer, "/")
    assert (code, headers["content-type"]) == (200, "text/html")
    assert b"Perfetto UI" in body
    code, headers, body = ask(viewer, viewer.place)
    assert (code, body, headers["cache-control"]) == (200, b"the trace", "no-store")
    assert ask(viewer, viewer.place, method="HEAD")[2] == b""
    bundle = next(name for name in viewer.files if name.endswith("/frontend_bundle.js"))
    assert ask(viewer, bundle, method="HEAD")[1]["content-type"] == "text/javascript"
    wasm = next(name for name in viewer.files if name.endswith(".wasm"))
    assert ask(viewer, wasm, method="HEAD")[1]["content-type"] == "application/wasm"


def test_the_address_holds_the_token_where_it_is_not_sent(viewer: Viewer) -> None:
    address = urlsplit(viewer.address)
    assert (address.hostname, address.path, address.query) == ("127.0.0.1", "/", "")
    [url] = parse_qs(address.fragment.removeprefix("!/?"))["url"]
    assert url == f"http://127.0.0.1:{viewer.server_port}{viewer.place}"
    assert len(viewer.place.split("/")[1]) >= 32


def test_headers_forbid_what_comes_from_outside(viewer: Viewer) -> None:
    for path in ("/", viewer.place, "/nothing"):
        headers = ask(viewer, path)[1]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        rules = dict(rule.strip().split(" ", 1) for rule in headers["content-security-policy"].split(";"))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["form-action"] == "'none'"
        sources = {source for rule in rules.values() for source in rule.split()}
        assert not [source for source in sources if source.startswith(("http", "*", "ws")) or "." in source]
        assert "'unsafe-inline'" not in rules["script-src"]
        assert "'unsafe-eval'" not in rules["script-src"]


def test_a_script_in_the_page_is_known_by_its_hash() -> None:
    script = b"let a = 1;"
    known = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert f"'sha256-{known}'" in content_policy(b"<script>" + script + b"</script><p>")


@contextmanager
def running(*arguments: str | Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, ended if it does not end."""
    keep = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    started = subprocess.Popen(
        [sys.executable, "-m", "gpuledger", "view", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=keep | environment,
    )
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait()
        for stream in (started.stdout, started.stderr):
            if stream is not None:
                stream.close()


def address_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_prints_the_address_and_ends_cleanly(profile: Path, tmp_path: Path, number: int) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    with running(profile, TMPDIR=str(scratch)) as started:
        printed = address_of(started)
        address = urlsplit(printed)
        assert address.hostname == "127.0.0.1"
        assert list(scratch.iterdir()) == []  # so that not even a kill leaves the timeline behind
        [url] = parse_qs(address.fragment.removeprefix("!/?"))["url"]
        connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=PATIENCE_S)
        connection.request("GET", urlsplit(url).path)
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 100) == (200, True)
        connection.close()
        started.send_signal(number)
        out, err = started.communicate(timeout=PATIENCE_S)
    assert started.returncode == 0
    assert out in ("", f"{printed}\n")  # a signal between the write and its return makes Python write it again
    assert err == "open this address in a browser; Ctrl-C ends\nended\n"
    assert list(scratch.iterdir()) == []


def test_the_browser_is_opened_without_the_token_on_its_command_line(profile: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    fake = tmp_path / "fake-browser"
    fake.write_text(f'#!/bin/sh\necho "$1" > {seen}.part && mv {seen}.part {seen}\n')
    fake.chmod(0o755)
    with running(profile, BROWSER=f"{fake} %s", DISPLAY=":0") as started:
        address = address_of(started)
        until = time.monotonic() + PATIENCE_S
        while not seen.exists() and time.monotonic() < until:
            time.sleep(0.05)
        page = Path(urlsplit(seen.read_text().strip()).path)
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        assert urlsplit(address).fragment.split("%2F")[3] in page.read_text()
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=PATIENCE_S)
    assert err == "in your browser; Ctrl-C ends\nended\n"
    assert urlsplit(seen.read_text().strip()).scheme == "file"
    assert not page.exists()


def test_a_timeline_that_is_there_is_shown_as_it_is(profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.pftrace.gz"
    assert gpuledger("export", profile, "-o", out).exit_code == 0
    with running(out, "--quiet") as started:
        assert address_of(started).endswith("%5D%7D%5D")
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, err, out.exists()) == (0, "", True)


# Laws


@given(st.text(max_size=60))
def test_no_path_leads_to_another_file(viewer: Viewer, path: str) -> None:
    asked = "/" + re.sub(r"[^!-~]", "", path).replace("#", "").lstrip("/")
    allowed = {*viewer.files, viewer.place}
    code = ask(viewer, asked)[0]
    assert code == (200 if urlsplit(asked).path in allowed else 404)


# Hostile input


@pytest.mark.parametrize(
    "path",
    [
        "/../LICENSE",
        "/..%2f..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/service_worker.js",
        "/trace_processor",
        "/a%20b.pftrace",
        "/wrong/a%20b.pftrace",
        "http://example.com/a%20b.pftrace",
    ],
)
def test_other_paths_are_not_found(viewer: Viewer, path: str) -> None:
    code, _, body = ask(viewer, path)
    assert code == 404
    assert b"the trace" not in body


@pytest.mark.parametrize("host", ["evil.example:80", "evil.example", "127.0.0.1", "", "localhost:1"])
def test_a_page_that_points_its_name_here_gets_nothing(viewer: Viewer, host: str) -> None:
    code, _, body = ask(viewer, viewer.place, host=host)
    assert code == 403
    assert b"the trace" not in body


def test_only_reading_is_possible(viewer: Viewer) -> None:
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(viewer, viewer.place, method=method)[0] == 501


def test_a_client_that_says_nothing_holds_nobody_up(viewer: Viewer) -> None:
    with socket.create_connection(("127.0.0.1", viewer.server_port)):
        assert ask(viewer, "/")[0] == 200


def test_a_missing_package_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingPackage) as refused:
        ui_files()
    assert "pip install 'gpuledger[view]'" in refused.value.hint


def test_a_port_in_use_is_one_sentence(viewer: Viewer, tmp_path: Path) -> None:
    with pytest.raises(OutputRefused, match=f"port {viewer.server_port} cannot be used: address already in use"):
        Viewer(viewer.trace, "again", viewer.server_port)


def test_what_cannot_be_read_is_not_shown(tmp_path: Path) -> None:
    ran = gpuledger("view", tmp_path / "no.sqlite", "--no-browser")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    ran = gpuledger("view", tmp_path / "no.pftrace")
    assert (ran.exit_code, ran.stderr) == (1, f"error: {tmp_path}/no.pftrace: no such file\n")
