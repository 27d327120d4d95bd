"""What every section of a report's page is made from: the report, the language, and how much room there is."""

from __future__ import annotations

from dataclasses import dataclass

from gpuledger.analyse.inventory import Contents
from gpuledger.findings.profiled_run import ProfiledRun
from gpuledger.ledger.device import Device
from gpuledger.messages import say
from gpuledger.present.writers.html.parts import Reader, Room, Unknown
from gpuledger.trace.model import NotMeasured


@dataclass(frozen=True, slots=True)
class Scene:
    """One report to be shown."""

    report: ProfiledRun
    about: Contents
    reader: Reader

    @property
    def room(self) -> Room:
        """How much the page may hold."""
        return self.reader.room

    @property
    def device(self) -> Device:
        return self.report.main_device

    def tell(self, text: str) -> str:
        """A message in the reader's language; other text as it is."""
        return self.reader.tell(text)

    def unknown(self, missing: NotMeasured | str) -> Unknown:
        """Stands for what was not measured, with the reason."""
        reason = missing.reason if isinstance(missing, NotMeasured) else missing
        return Unknown(self.tell(say("Not measured: {what}.", what=reason)))
