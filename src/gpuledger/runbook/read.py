"""A runbook's file into a `Runbook`: strict, so that a typing error is told with its line before anything runs."""

from __future__ import annotations

from msgspec.structs import replace

from gpuledger.errors import GpuledgerError
from gpuledger.runbook.check import check_runbook
from gpuledger.runbook.definition import Runbook
from gpuledger.runbook.forms import read_as
from gpuledger.runbook.yaml_tree import RunbookFault, parsed


class BadRunbook(GpuledgerError):
    """The runbook is not what it should be; the claim begins with the file and the line."""


def runbook_of(text: bytes, file: str) -> Runbook:
    """The runbook in a file; `file` is how errors call it."""
    try:
        runbook = replace(read_as(Runbook, parsed(text)), file=file)
        check_runbook(runbook)
    except RunbookFault as fault:
        line = "" if fault.line is None else f":{fault.line}"
        part = f"{' of '.join(fault.part)}: " if fault.part else ""
        raise BadRunbook(f"{file}{line}: {part}{fault.claim}", hint=fault.hint) from None
    return runbook
