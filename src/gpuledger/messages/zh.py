"""Chinese. One line per English template, in the order of the modules that say them."""

from __future__ import annotations

from typing import Final

TEMPLATES: Final[dict[str, str]] = {}
