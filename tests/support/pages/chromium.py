"""A real browser with the Perfetto UI in it: opens a timeline, and asks the UI's engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuledger.export.perfetto_server import Viewer

ASK = """async (sql) => {
  const found = await app.trace.engine.query(sql), names = found.columns(), rows = [];
  for (const row = found.iter({}); row.valid(); row.next()) {
    const values = names.map((name) => row.get(name));
    rows.push(values.map((value) => typeof value === 'bigint' ? Number(value) : value));
  }
  return rows;
}"""


class Shown:
    """A timeline in the UI."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.sent: list[str] = []
        self.dialogs: list[str] = []
        page.on("request", lambda request: self.sent.append(request.url))
        page.on("requestfailed", lambda request: self._refused(request))
        page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))

    def _refused(self, request: Any) -> None:
        if request.failure == "csp":  # the browser says what it would have asked, but did not
            self.sent.remove(request.url)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.page.evaluate(ASK, sql)]

    def outside(self, port: int) -> list[str]:
        """What was asked of anybody but our server."""
        own = (f"http://127.0.0.1:{port}/", f"blob:http://127.0.0.1:{port}/", "data:")
        return [url for url in self.sent if not url.startswith(own)]


@contextmanager
def shown(opened: Any, timeline: Path) -> Iterator[Shown]:
    """The timeline, loaded."""
    with timeline.open("rb") as file, Viewer(file, timeline.name) as viewer:
        page = opened.new_page(viewport={"width": 1280, "height": 900})
        made = Shown(page)
        page.goto(viewer.address, timeout=120_000)
        page.wait_for_function("() => globalThis.app && app.trace && app.trace.engine", timeout=120_000)
        yield made
        assert made.outside(viewer.server_port) == []
        assert made.dialogs == []
        page.close()
