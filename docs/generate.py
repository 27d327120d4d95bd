"""What is made from the code: a page per verb, the columns of every table, the JSON schemas.

The site has them (`docs/site.py`); `make docs` writes them into build/reference.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import click

from gpuledger.analyse.recorded.nvidia_tables import NVIDIA_REPORTS
from gpuledger.cli.help import shared_options
from gpuledger.cli.main import cli, verb_named
from gpuledger.cli.verbs.bench import diagnosis
from gpuledger.diagnosis.cases import DiagnosisCase, MeasuredSaving, diagnosis_benchmark
from gpuledger.present.sheet import Digits
from gpuledger.present.views.nvidia import NVIDIA_TABLES
from gpuledger.present.views.schema import answer_schema, answer_types
from gpuledger.sql.tables import TABLES
from gpuledger.trace.tables import Table
from gpuledger.verbs import VERBS

BUILT = Path(__file__).parent.parent / "build" / "reference"
SCHEMAS = Path(__file__).parent / "schemas"
HELP_WIDTH = 78


def pages() -> dict[str, str]:
    """Every generated page by its file name."""
    found = {f"{verb}.md": verb_page(verb) for verb in VERBS}
    found["commands.md"] = commands_page()
    found["trace-tables.md"] = trace_tables_page()
    found["query-tables.md"] = query_tables_page()
    found["reports.md"] = reports_page()
    found["diagnosis-cases.md"] = diagnosis_cases_page()
    return found


def help_of(command: click.Command, name: str) -> str:
    """What `--help` prints, at a fixed width."""
    command = copy.copy(command)
    command._help_option = None  # click keeps the one it made first, which may have had other names
    context = click.Context(command, info_name=name, terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH)
    return command.get_help(context)


def commands_page() -> str:
    """The command itself."""
    lines = ["# gpuledger", "", "```text", help_of(cli, "gpuledger"), "```", ""]
    with click.Context(cli, info_name="gpuledger", terminal_width=HELP_WIDTH, max_content_width=HELP_WIDTH) as context:
        lines += ["`gpuledger help options`:", "", "```text", shared_options(context), "```", ""]
    codes = "0 done, 1 could not (one `error:` sentence on stderr), 2 a wrong call, 3 a gate tripped, 130 interrupted"
    lines += [f"Exit codes: {codes}.", ""]
    lines += ["| variable | effect |", "|---|---|"]
    lines += ["| `COLUMNS` | width of text output; without it, the terminal's, and no limit where there is none |"]
    lines += ["| `NO_COLOR`, `FORCE_COLOR`, `CLICOLOR_FORCE` | no colors in a terminal; colors in a pipe too |"]
    lines += ["| `GPULEDGER_DEBUG=1` | errors come with a traceback |"]
    lines += [
        "| `XDG_CACHE_HOME` | where answers, readings of large profiles and exports of .nsys-rep are kept (Linux) |"
    ]
    lines += ["| `GPULEDGER_CACHE` | `0` (`off`): keep and use nothing; `always`: keep what is small too |"]
    lines += ["| `GPULEDGER_NATIVE` | `0`: read SQLite exports without the compiled decoder |", ""]
    return "\n".join(lines)


def verb_page(verb: str) -> str:
    """One verb."""
    command = verb_named(verb)
    document = {"run": "runbook"}.get(verb, verb)
    file = f"gpuledger.{document}-1.json"
    own = (SCHEMAS / file).exists() or document in answer_types()
    schema = f"JSON output is the document [gpuledger.{document}/1](../schemas/{file}).\n"
    if verb == "capture":
        schema = "Beside each profile lies the document `gpuledger.capture/1`.\n"
    has_schema = own
    helps = [help_of(command, f"gpuledger {verb}")]
    if isinstance(command, click.Group):
        inside = [
            (name, command.get_command(click.Context(command), name))
            for name in sorted(command.list_commands(click.Context(command)))
        ]
        helps += [help_of(each, f"gpuledger {verb} {name}") for name, each in inside if each is not None]
    if verb == "bench":
        helps.append(help_of(diagnosis, "gpuledger bench diagnosis"))
        schema += "That of `bench diagnosis` is `gpuledger.diagnosis/1`.\n"
    shown = "\n".join(f"```text\n{text}\n```\n" for text in helps)
    return f"# gpuledger {verb}\n\n{shown}" + (f"\n{schema}" if has_schema else "")


def trace_tables_page() -> str:
    """Our tables, column by column."""
    parts = [
        "# The tables of a trace\n",
        f"{(Table.__doc__ or '').strip()} Text columns hold codes into `trace.strings`.",
    ]
    parts.append("Where a profile did not record a value, the column holds -1;")
    parts.append("in Arrow, pandas, polars and Parquet it is null.\n")
    for table in Table:
        parts += [
            f"## {table.value}\n",
            f"A row is {table.schema.row}.\n",
            "| column | stored as | meaning |",
            "|---|---|---|",
        ]
        parts += [f"| `{column.name}` | {column.kind.value} | {column.meaning} |" for column in table.schema.columns]
        parts.append("")
    return "\n".join(parts)


def query_tables_page() -> str:
    """The tables of `gpuledger query`, column by column."""
    parts = [
        "# The tables of a query\n",
        "What `gpuledger query` can be asked, and `gpuledger query --schema` prints. NULL stands for what was not",
        "recorded, or does not apply. Columns with a * are worked out with the books; the others are as recorded.\n",
    ]
    for table in TABLES:
        parts += [f"## `{table.name}`\n", f"A row is {table.row}.\n", "| column | type | meaning |", "|---|---|---|"]
        parts += [
            f"| `{column.name}`{' *' if column.is_booked else ''} | {column.type} | {column.meaning} |"
            for column in table.columns
        ]
        parts.append("")
    return "\n".join(parts)


def reports_page() -> str:
    """NVIDIA's tables, column by column."""
    units = {
        Digits.WHOLE: "integer",
        Digits.TENTH: "one decimal",
        Digits.MEGABYTES: "MB, three decimals; bytes in JSON",
    }
    parts = [
        "# NVIDIA's tables\n",
        "What `gpuledger stats` can print. The CSV headings are NVIDIA's; JSON uses the keys.\n",
    ]
    for report in NVIDIA_REPORTS.values():
        parts += [f"## {report.name}\n", f"{report.title}. {(report.make.__doc__ or '').strip().splitlines()[0]}\n"]
        parts += ["| CSV heading | JSON key | digits |", "|---|---|---|"]
        parts += [
            f"| {c.heading} | `{c.key}` | {units.get(c.digits, c.digits.value)} |" for c in NVIDIA_TABLES[report.name]
        ]
        parts.append("")
    return "\n".join(parts)


def diagnosis_cases_page() -> str:
    """Causes, groups and cases of the diagnosis benchmark."""
    benchmark = diagnosis_benchmark()
    parts = [
        "# Causes and cases of the diagnosis benchmark\n",
        "From `src/gpuledger/diagnosis/cases.yaml`. [How it is scored](../concepts/diagnosis-benchmark.md).\n",
        "## Causes\n",
        "A tool names a cause by its id or an alias, or only its area, in any case, with spaces, _ or -.\n",
        "| cause | area | what it means | findings of gpuledger | aliases |",
        "|---|---|---|---|---|",
    ]
    parts += [
        f"| `{cause.id}` | {cause.area} | {cause.means} | {', '.join(cause.codes)} | {', '.join(cause.aliases)} |"
        for cause in benchmark.causes
    ]
    parts += ["", "| area | what it means |", "|---|---|"]
    parts += [f"| `{area}` | {means} |" for area, means in benchmark.areas.items()]
    parts += [
        "",
        "## Groups\n",
        "| group | what it holds | our rules | made by | savings measured in |",
        "|---|---|---|---|---|",
    ]
    parts += [
        f"| {group.id} | {group.about} | {group.seen} | `{group.made_by}` | {group.measured_in} |"
        for group in benchmark.groups
    ]
    parts += ["", "Left out:\n", *(f"- {name}: {why}" for name, why in benchmark.left_out.items()), "", "## Cases\n"]
    parts += ["Savings are of one step: profiled, and plain (without the profiler). Of two faults, each fixed alone.\n"]
    parts += ["| case | what it loses | accepted | saved, profiled | saved, plain | capture | program |"]
    parts += ["|---|---|---|--:|--:|---|---|", *(_case_row(case) for case in benchmark.cases if case.faults)]
    parts += ["", "## Controls\n", "| case | kind | must not be claimed | capture | program |", "|---|---|---|---|---|"]
    parts += [
        f"| {case.id} | {case.kind} | {', '.join(case.never) or 'anything'} | {case.capture} | `{case.program}` |"
        for case in benchmark.cases
        if not case.faults
    ]
    return "\n".join([*parts, ""])


def _case_row(case: DiagnosisCase) -> str:
    accepted = "; ".join(", ".join(fault.accepted) for fault in case.faults)
    profiled, plain = (
        "; ".join(_saved(fault.profiled if how else fault.plain) for fault in case.faults) for how in (True, False)
    )
    return f"| {case.id} | {case.loses} | {accepted} | {profiled} | {plain} | {case.capture} | `{case.program}` |"


def _saved(saving: MeasuredSaving | None) -> str:
    return "not measured" if saving is None else f"{saving.saves_ns / 1e6:.2f} ms ({saving.percent:.1f} %)"


def answer_schemas() -> dict[str, str]:
    """The JSON schema of every answer, by its file name."""
    kinds = answer_types().items()
    return {f"gpuledger.{name}-1.json": json.dumps(answer_schema(kind), indent=1) + "\n" for name, kind in kinds}


if __name__ == "__main__":
    BUILT.mkdir(parents=True, exist_ok=True)
    for name, text in {**pages(), **answer_schemas()}.items():
        (BUILT / name).write_text(text)
