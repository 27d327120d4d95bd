"""When a document was made: the clock, unless SOURCE_DATE_EPOCH asks for documents that can be made again alike."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from gpuledger.messages import Message, say


def made_at() -> str:
    """Now, as ISO 8601 to the second."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else datetime.now(UTC)
    return now.isoformat(timespec="seconds").replace("+00:00", "Z")


def made_line() -> Message:
    """The same for people, to the minute."""
    return say("Made {time} UTC.", time=made_at()[:16].replace("T", " "))
