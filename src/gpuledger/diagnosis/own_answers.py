"""Our own answers: a report of each capture, its findings by the causes of the list.

Captures lie in archives in the repository; each is unpacked where it is read, and gone afterwards.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from gpuledger.diagnosis.answers import CaseAnswer, DiagnosisAnswers, NamedFinding
from gpuledger.diagnosis.cases import DiagnosisBenchmark, DiagnosisCase
from gpuledger.errors import GpuledgerError
from gpuledger.findings.profiled_run import WHERE_SAMPLED, ProfiledRun, columns_for, diagnosed
from gpuledger.ledger.steps import Wanted
from gpuledger.read import open_trace
from gpuledger.version import own_version

Tell = Callable[[int, DiagnosisCase], None]
"""Told which case comes next, and how many came before it."""

_SEPARATOR: Final = "::"


class NoCaptures(GpuledgerError):
    """The captures of the cases are not here."""


def captures_folder(benchmark: DiagnosisBenchmark) -> Path:
    """`captures/` of the repository that we stand in, or that this package is run from."""
    archive = benchmark.cases[0].capture.partition(_SEPARATOR)[0]
    here = Path.cwd()
    for folder in (here, *here.parents, *Path(__file__).resolve().parents):
        if (folder / "captures" / archive).is_file():
            return folder / "captures"
    hint = "clone gpuledger's repository and run this in it; --answers scores a tool's answers anywhere"
    raise NoCaptures("the captures of the cases are not here", found=f"looked for captures/{archive}", hint=hint)


def own_answers(benchmark: DiagnosisBenchmark, folder: Path, tell: Tell) -> DiagnosisAnswers:
    """What our reports of all captures say."""
    answers: list[CaseAnswer] = []
    for case, capture in _unpacked(benchmark.cases, folder):
        tell(len(answers), case)
        trace = open_trace(capture, only=columns_for(profiled=False), where_sampled=WHERE_SAMPLED, cache=False)
        answers.append(own_answer(benchmark, case, diagnosed(trace, case.id, Wanted())))
    return DiagnosisAnswers("gpuledger", tuple(answers), own_version())


def own_answer(benchmark: DiagnosisBenchmark, case: DiagnosisCase, run: ProfiledRun) -> CaseAnswer:
    """The findings of one report, in its order."""
    steady_ns = {device.gpu: device.steady_ns for device in run.devices}
    whole_ns = run.main_device.steady_ns
    return CaseAnswer(
        case.id,
        tuple(
            NamedFinding(
                benchmark.cause_of_code[finding.code],
                f"{finding.code}: {finding.claim}",
                min(100.0, round(100 * finding.saving_ns / steady_ns.get(finding.gpu, whole_ns), 1)),
            )
            for finding in run.findings
        ),
    )


def _unpacked(cases: tuple[DiagnosisCase, ...], folder: Path) -> Iterator[tuple[DiagnosisCase, Path]]:
    """Each case with its capture, archive by archive; one after the other is on disk."""
    for name, group in groupby(cases, key=lambda case: case.capture.partition(_SEPARATOR)[0]):
        wanted = {case.capture.partition(_SEPARATOR)[2]: case for case in group}
        try:
            with tarfile.open(folder / name) as archive, tempfile.TemporaryDirectory() as beside:
                for member in archive:
                    if (case := wanted.pop(member.name, None)) is not None:
                        archive.extract(member, beside, filter="data")
                        yield case, Path(beside, member.name)
                        Path(beside, member.name).unlink()
                    if not wanted:
                        break
        except (OSError, tarfile.TarError) as error:
            raise NoCaptures(f"{folder / name}: cannot be read", found=str(error)) from None
        if wanted:
            raise NoCaptures(f"{folder / name}: holds no member {next(iter(wanted))}")
