"""Pages in a real browser: Chromium, started once, and a page in it that is alone with itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

FLAGS = (
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

    started: Any
    profiles: dict[bool, Any]
    kept: dict[str, tuple[Page, list[str]]] = field(default_factory=dict)
    """Pages that several tests look at, and what each was heard to say, by address."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium, where it is installed together with playwright."""
    api = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    with api.sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield Browser(started, {scripts: started.new_context(java_script_enabled=scripts) for scripts in (True, False)})
        started.close()


@contextmanager
def opened(browser: Browser, url: str, *, width: int = 1280, scripts: bool = True) -> Iterator[Page]:
    """A page that is alone: whatever it says or asks for but itself is an error."""
    page, told = _loaded(browser, url, width=width, scripts=scripts)
    yield page
    assert told == []
    page.close()


@contextmanager
def kept_open(browser: Browser, url: str, *, width: int = 1280) -> Iterator[Page]:
    """The same, loaded once for several tests: each leaves it as the others can take it, and a failed one for none."""
    is_open = url in browser.kept
    page, told = browser.kept.pop(url) if is_open else _loaded(browser, url, width=width, scripts=True)
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="screen", color_scheme="light")
    yield page
    assert told == []
    browser.kept[url] = page, told


def _loaded(browser: Browser, url: str, *, width: int, scripts: bool) -> tuple[Page, list[str]]:
    """A page, and what is heard of it from now on."""
    page = browser.profiles[scripts].new_page()
    page.set_viewport_size({"width": width, "height": 900})
    told: list[str] = []

    def hear(said: str) -> None:
        if said not in (url.partition("#")[0], "data:,"):
            told.append(said)

    page.on("console", lambda message: hear(f"console: {message.text}"))
    page.on("pageerror", lambda error: hear(f"error: {error}"))
    page.on("dialog", lambda dialog: hear(f"dialog: {dialog.message}"))
    page.on("request", lambda request: hear(request.url))
    page.goto(url)
    if scripts and url.startswith("file:"):
        page.wait_for_selector("html[data-started]")
    return page, told
