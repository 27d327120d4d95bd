"""The end of a report's page: communication, and what the numbers rest on."""

from __future__ import annotations

from gpuledger.analyse.overlap import overlap
from gpuledger.messages import say
from gpuledger.present.made_at import made_line
from gpuledger.present.sheet import Column, Sheet, Unit
from gpuledger.present.terms import severity_term
from gpuledger.present.views.gpu_time import overlap_sheet
from gpuledger.present.views.page.scene import Scene
from gpuledger.present.writers.html.parts import Command, Heading, Listing, Part, Section, Text
from gpuledger.present.writers.html.tables import table
from gpuledger.trace.model import NotMeasured
from gpuledger.units import share_text

_MISSING = (
    Column("what", say("Not in the profile"), Unit.TEXT),
    Column("reason", say("Why"), Unit.TEXT),
    Column("means", say("What that means"), Unit.TEXT),
)
_NOTES = (Column("severity", say("Severity"), Unit.TEXT), Column("sentence", say("What was seen"), Unit.TEXT))


def communication_section(scene: Scene) -> Section:
    """How communication and copies overlap with compute; across ranks, another page answers."""
    tell, overlaps = scene.tell, [overlap(device) for device in scene.report.devices]
    parts: list[Part] = [
        table(
            overlap_sheet(work),
            tell,
            scene.room,
            caption=tell(say("Overlap over the whole window, GPU {gpu}", gpu=work.gpu)),
        )
        for work in overlaps
    ]
    if not any(work.communication.running_ns for work in overlaps):
        parts.insert(0, Text(tell(say("No communication ran on a GPU here.")), "lead"))
    said = say(
        "One profile cannot tell which rank the others wait for: `gpuledger fleet DIR -o job.html` "
        "combines the profiles of all ranks."
    )
    parts.append(Text(tell(said), "note"))
    return Section("communication", tell(say("Communication and overlap")), tuple(parts), tell(say("Communication")))


def health_section(scene: Scene) -> Section:
    """What the numbers rest on: the tools, what is missing, what was lost, and how to make the page again."""
    tell, about = scene.tell, scene.about
    notes = (*scene.report.trace.health, *scene.report.kernel_health)
    missing = tuple((lacking.what, lacking.reason, lacking.means) for lacking in about.missing)
    parts: list[Part] = [Listing(tell(say("Source")), _facts(scene))]
    if missing:
        sheet = Sheet("missing", "Missing", _MISSING, missing)
        parts.append(table(sheet, tell, scene.room, caption=tell(say("Not in this profile")), name="missing"))
    if notes:
        rows = tuple((severity_term(note.severity), note.sentence) for note in notes)
        sheet = Sheet("notes", "Notes", _NOTES, rows)
        parts.append(table(sheet, tell, scene.room, caption=tell(say("Health")), name="health-notes"))
    else:
        parts.append(Text(tell(say("Nothing was lost while reading.")), "note"))
    parts += [Heading(tell(say("Reproduce"))), Command(scene.reader.command)]
    return Section("health", tell(say("Health and provenance")), tuple(parts), tell(say("Health")))


def _facts(scene: Scene) -> tuple[str, ...]:
    origin, tell = scene.report.trace.origin, scene.tell
    unknown = tell(say("not recorded"))
    tool = f"{origin.tool} {origin.tool_version or unknown}"
    facts = [
        tell(say("profile: {profile}", profile=scene.report.name)),
        tell(say("recorded by: {tool}, export schema {schema}", tool=tool, schema=origin.schema_version or unknown)),
        tell(say("recorded at: {time} UTC", time=origin.started_utc or unknown)),
        tell(
            say(
                "driver {driver}, CUDA {cuda}",
                driver=origin.driver_version or unknown,
                cuda=origin.cuda_version or unknown,
            )
        ),
        tell(say("read by: gpuledger {version}", version=scene.reader.version)),
        tell(made_line()),
    ]
    launched = scene.about.launched
    if not isinstance(launched, NotMeasured):
        said = say("{share} of the GPU work has its launch call in the profile", share=share_text(launched))
        facts.append(tell(said))
    return tuple(facts)
