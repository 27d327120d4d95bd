"""The page of `gpuledger kernels NCU`: the verdict, every launch under its roofs, and each kernel in depth."""

from __future__ import annotations

from collections.abc import Sequence

from gpuledger.analyse.kernels.judgement import JudgedKernel
from gpuledger.messages import say
from gpuledger.present.document import Block
from gpuledger.present.views.page.launch_roofline import DrawnLaunch, launch_roofline
from gpuledger.present.writers.html.blocks import block_sections
from gpuledger.present.writers.html.parts import Chart, Command, Page, Part, Reader, Section, Unknown
from gpuledger.present.writers.html.tables import cut


def ncu_page(name: str, verdict: str, kernels: Sequence[JudgedKernel], blocks: Sequence[Block], reader: Reader) -> Page:
    """`blocks` are those of the text."""
    name = cut(name, reader.room.letters, reader.tell)
    return Page(
        title=f"{name} · gpuledger",
        name=name,
        headline="",
        verdict=cut(reader.tell(verdict), reader.room.letters, reader.tell),
        tiles=(),
        sections=(
            Section("roofline", reader.tell(say("Roofline")), (_roofline(kernels, reader),)),
            *block_sections(blocks, reader, reader.tell(say("Kernels"))),
            Section("again", reader.tell(say("Reproduce")), (Command(reader.command),)),
        ),
    )


def _roofline(kernels: Sequence[JudgedKernel], reader: Reader) -> Part:
    launches = [DrawnLaunch(launch, launch.duration_ns) for kernel in kernels for launch in kernel.launches]
    picture = launch_roofline(launches, reader.tell)
    if picture is None:
        missing = say("operations and DRAM traffic were not collected together; collect the roofline sections")
        return Unknown(reader.tell(say("Not measured: {what}.", what=missing)))
    said = say(
        "Each dot is a profiled launch, sized by its share of the time; the further below the roof, the more to gain."
    )
    return Chart(picture, reader.tell(said), name="roofline-chart")
