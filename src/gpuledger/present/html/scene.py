"""What every section of a report's page is made from: the report, the language, and how much room there is."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.inventory import Contents
from gpuledger.ledger.device import Device
from gpuledger.messages import say, translated
from gpuledger.present.html.parts import Room, Unknown
from gpuledger.report import Report
from gpuledger.trace.health import NotMeasured


@dataclass(frozen=True, slots=True)
class Scene:
    """One report to be shown."""

    report: Report
    about: Contents
    language: str
    room: Room
    command: str
    """The command that makes the page again."""

    @property
    def device(self) -> Device:
        return self.report.main_device

    def tell(self, text: str) -> str:
        """A message in the reader's language; other text as it is."""
        return translated(text, self.language)

    def unknown(self, missing: NotMeasured | str) -> Unknown:
        """Stands for what was not measured, with the reason."""
        reason = missing.reason if isinstance(missing, NotMeasured) else missing
        return Unknown(self.tell(say("Not measured: {what}.", what=reason)))
