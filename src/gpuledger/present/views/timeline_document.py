"""The answer of `gpuledger kernels PROFILE`: use of the GPU where it was sampled, and kernels in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpuledger.analyse.utilization.against_counters import held_against
from gpuledger.analyse.utilization.stretches import SampledUse
from gpuledger.present.document import Block, Conclusion, Document, Paragraph, SheetBlock, SheetTitle
from gpuledger.present.sheet import Sheet
from gpuledger.present.views.tables_page import tables_page
from gpuledger.present.views.utilization import (
    against_blocks,
    against_json,
    gpu_use_json,
    kernels_use_json,
    not_sampled,
    shown_sheet,
    use_answer,
    use_sheet,
)
from gpuledger.present.writers.json import health_json, tables_json
from gpuledger.trace.measured import KernelReport
from gpuledger.trace.model import Note, NotMeasured, Origin

if TYPE_CHECKING:
    from gpuledger.present.writers.html.parts import Part, Reader


def timeline_document(
    profile: str,
    use: Mapping[int, SampledUse | NotMeasured],
    in_order: Sequence[Sheet],
    origin: Origin,
    notes: Sequence[Note],
    zero_ns: int,
    counted: KernelReport | None = None,
    *,
    unsampled: Sequence[str] = (),
) -> Document:
    """All GPUs; `in_order` has a table of kernels each. JSON is the document gpuledger.stepkernels/1.

    What Nsight Compute `counted` of the same kernels is held against the samples. `unsampled` is said first where no
    GPU was sampled.
    """
    sampled = [found for found in use.values() if not isinstance(found, NotMeasured)]
    sentences: Sequence[str] = [
        sentence for kernels, stretches in sampled for sentence in use_answer(kernels, stretches)
    ]
    sentences = sentences or unsampled
    against = [] if counted is None else [held_against(kernels, counted) for kernels, _ in sampled]
    shown = (*(shown_sheet(kernels) for kernels, _ in sampled), *in_order)
    data: dict[str, Any] = {
        "schema": "gpuledger.stepkernels/1",
        "profile": profile,
        "zero_ns": zero_ns,
    }
    opening: list[Block] = [Conclusion(sentences[0]), *map(Paragraph, sentences[1:])] if sentences else []
    return Document(
        blocks=lambda: (
            *opening,
            *(block for held in against for block in against_blocks(held)),
            *(SheetBlock(sheet, SheetTitle.NAMED, tells_hidden=True) for sheet in shown),
        ),
        data=lambda: (
            data
            | {
                "kernels": [kernel for kernels, _ in sampled for kernel in kernels_use_json(kernels)],
                "gpus": [
                    not_sampled(gpu, found) if isinstance(found, NotMeasured) else gpu_use_json(*found, zero_ns)
                    for gpu, found in use.items()
                ],
                **({} if counted is None else {"against_ncu": [against_json(held) for held in against]}),
                "tables": tables_json(in_order),
                "health": health_json(notes),
            }
        ),
        sheets=lambda: (*(use_sheet(kernels) for kernels, _ in sampled), *in_order),
        page=lambda reader: tables_page(
            profile, list(map(Paragraph, sentences)), shown, reader, charts=_charts(use, origin, reader)
        ),
    )


def _charts(use: Mapping[int, SampledUse | NotMeasured], origin: Origin, reader: Reader) -> list[Part]:
    """The kernels of each GPU under its roofs, where it was sampled and its peaks are known."""
    from gpuledger.present.views.page.sampled_kernels import sampled_chart

    charts = [
        sampled_chart(found, origin.gpu(gpu), reader.tell)
        for gpu, found in use.items()
        if not isinstance(found, NotMeasured)
    ]
    return [chart for chart in charts if chart is not None]
