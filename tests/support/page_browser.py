"""Pages in a real browser: Chromium, started once, and a page in it that is alone with itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
Page = Any  # playwright is not typed here, as it may not be installed


@dataclass(frozen=True)
class Browser:
    """Chromium, with scripts and without; pages of one profile share a process, and starting one takes longest."""

    profiles: dict[bool, Any]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium, where it is installed together with playwright."""
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=list(_QUIET))
        yield Browser({scripts: started.new_context(java_script_enabled=scripts) for scripts in (True, False)})
        started.close()


@contextmanager
def opened(browser: Browser, url: str, *, width: int = 1280, scripts: bool = True) -> Iterator[Page]:
    """A page that is alone: whatever it says or asks for but itself is an error."""
    page = browser.profiles[scripts].new_page()
    page.set_viewport_size({"width": width, "height": 900})
    told: list[str] = []
    page.on("console", lambda message: told.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: told.append(f"error: {error}"))
    page.on("dialog", lambda dialog: told.append(f"dialog: {dialog.message}"))
    page.on("request", lambda request: told.append(request.url))
    page.goto(url)
    yield page
    assert [heard for heard in told if heard not in (url, "data:,")] == []
    page.close()
