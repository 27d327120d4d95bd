"""One Chromium for all tests of pages: starting it takes longer than any of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.page_browser import Browser, chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
