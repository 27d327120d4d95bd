"""Whether reports name the planted line: `python judge_lines.py FOLDER`, a table out.

FOLDER holds what `lines.sh` wrote, and then what is in it: exports/PROGRAM.bad.1.sqlite, traces/PROGRAM.bad.1.json.gz,
and in lines/ planted.txt and nsys.samples.gz, which is put beside each export. Of an export the first finding with a
line counts, and its line must be the planted one; of a trace of torch the function that holds it, as torch records no
more. Below, what sampling costs: a program's windows with the sampler against those without it just before or after.
"""

from __future__ import annotations

import ast
import json
import lzma
import shutil
import statistics
import sys
import tarfile
from collections import defaultdict
from io import BytesIO
from pathlib import Path

import numpy as np

from gpuledger import open_trace
from gpuledger.attribution.lines import LinePlace
from gpuledger.errors import GpuledgerError
from gpuledger.findings.profiled_run import diagnose
from gpuledger.selection import Selection
from gpuledger.trace.model import Trace

PROGRAMS = Path(__file__).parents[1] / "lab" / "programs" / "paired"


def first_line(trace: Trace, name: str) -> tuple[str, LinePlace | None]:
    """The first finding, or the first of those after it that knows a line, and that line."""
    findings = diagnose(trace, name, Selection()).findings
    for finding in findings:
        for piece in finding.evidence:
            if piece.line is not None:
                return finding.code, piece.line
    return (findings[0].code if findings else "-"), None


def holder(program: str, file: str) -> str:
    """The function around a planted line; by its mark, as lines may have moved since the recording."""
    source, name = (PROGRAMS / file).read_text(encoding="utf-8"), ""
    line = next(n for n, text in enumerate(source.splitlines(), 1) if text.endswith(f"# planted: {program}"))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0):
            name = node.name
    return name


def clock_error_ns(trace: Trace) -> tuple[int, int]:
    """How far samples in `spin` lie outside of the ranges `known` around it, at most, before and after."""
    ranges, samples = trace["ranges"], trace["samples"]
    known = ranges.where(ranges.codes("name") == trace.strings.code("known"))
    spins = [
        end
        for end, stack in zip(samples["end_ns"].tolist(), samples["stack"].tolist(), strict=True)
        if any("spin (lines.py" in frame for frame in trace.stacks.texts(stack, trace.strings))
    ]
    start, end, taken = np.sort(known["start_ns"]), np.sort(known["end_ns"]), np.array(spins)
    taken = taken[(taken > start[0] - 10**6) & (taken < end[-1] + 10**6)]
    which = np.clip(np.searchsorted(start, taken) - 1, 0, len(start) - 1)
    early = np.where(taken < start[which], start[which] - taken, 0)
    return int(early.max(initial=0)), int(np.maximum(taken - end[which], 0).max(initial=0))


def unpack(folder: Path) -> None:
    """What `lines.sh` wrote into folders of its own, once."""
    for name in ("lines", "exports", "traces"):
        parts = sorted(folder.glob(f"{name}.tar.*"))
        if parts and not (folder / name).exists():
            with tarfile.open(fileobj=BytesIO(b"".join(part.read_bytes() for part in parts))) as archive:
                archive.extractall(folder, filter="data")
    for packed in folder.glob("exports/*.xz"):
        packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
        packed.unlink()


def print_costs(folder: Path) -> None:
    """Steps as they are, under nsys, under nsys with the sampler; and of a loop in Python what costs it."""
    times: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(folder.glob("lines/*.jsonl")):
        for row in map(json.loads, file.read_text(encoding="utf-8").splitlines()):
            for state, taken in row.get("times", {}).items():
                times[f"{row['program']}.{row['variant']}"][state] += taken
    for program, states in times.items():
        shown = [f"{state} {statistics.median(taken) / 1e6:.3f} ms" for state, taken in states.items()]
        cost = ""
        if {"on", "off"} <= set(states):
            ratios = np.sort([on / off - 1 for on, off in zip(states["on"], states["off"], strict=True)])
            rank = max(int(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5), 0)  # the median is within, in 19 of 20 cases
            cost = f"sampler {np.median(ratios):+.1%} ({ratios[rank]:+.1%} to {ratios[-1 - rank]:+.1%}); "
        print(f"{program}: {cost}{', '.join(shown)}")  # noqa: T201


def main() -> None:
    """The table."""
    folder = Path(sys.argv[1])
    unpack(folder)
    listed = (folder / "lines" / "planted.txt").read_text(encoding="utf-8").splitlines()
    planted = dict(line.split("\t") for line in listed)
    right = {"nsys": 0, "torch": 0}
    for program, place in planted.items():
        file = place.split(":")[0]
        export, traced = folder / "exports" / f"{program}.bad.1.sqlite", folder / "traces" / f"{program}.bad.1.json.gz"
        if export.exists():
            shutil.copy(folder / "lines" / "nsys.samples.gz", export.with_name(f"{program}.bad.1.samples.gz"))
            trace = open_trace(export)
            notes = [str(note.sentence) for note in trace.health if note.code == "python-samples"]
            code, found = first_line(trace, program)
            is_right = found is not None and found.at == place
            right["nsys"] += is_right
            print("nsys ", "OK" if is_right else "--", program, place, code, found and str(found.whole), notes)  # noqa: T201
            if program == "known_time":
                print("clock error, ns, early and late:", clock_error_ns(trace))  # noqa: T201
        if traced.exists():
            try:
                code, found = first_line(open_trace(traced), program)
            except GpuledgerError as error:
                print("torch", "not read:", program, error)  # noqa: T201
                continue
            is_right = found is not None and (Path(found.file).name, found.function) == (file, holder(program, file))
            right["torch"] += is_right
            print("torch", "OK" if is_right else "--", program, place, code, found and str(found.whole))  # noqa: T201
    print(right)  # noqa: T201
    print_costs(folder)


if __name__ == "__main__":
    main()
