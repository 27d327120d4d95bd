"""What a query is asked of: a trace, and its books and findings, each made when the first query names them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

from gpuledger.analyse.use.stretches import SampledUse
from gpuledger.findings.finding import Finding
from gpuledger.findings.profiled_run import sampled
from gpuledger.findings.rules import findings
from gpuledger.ledger.device import Device, analysed
from gpuledger.ledger.steps import Wanted
from gpuledger.trace.model import Trace


class QuerySubject:
    """One profile. With `devices` the books are made already."""

    def __init__(
        self, trace: Trace, devices: Sequence[Device] | None = None, name: str = "profile", wanted: Wanted | None = None
    ) -> None:
        self.trace: Final = trace
        self._devices, self._name, self._wanted = devices, name, wanted or Wanted()

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """Every GPU at work."""
        made = self._devices
        return analysed(self.trace, self._name, self._wanted) if made is None else tuple(made)

    @cached_property
    def use(self) -> dict[int, SampledUse]:
        """What samples say of each GPU that was sampled."""
        return sampled(self.trace, self.devices)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What the report finds."""
        return findings(self.trace, self.devices, use=self.use)
