"""`gpuledger kernels`: what limits the kernels that Nsight Compute profiled."""

from __future__ import annotations

from pathlib import Path

import click

from gpuledger.analyse.kernels.judgement import judged
from gpuledger.analyse.kernels.judgement import kernels as put_together
from gpuledger.cli.limits import limit_option
from gpuledger.cli.output import Output, language_option, output_options
from gpuledger.cli.progress import progress
from gpuledger.limits import Limits
from gpuledger.present.views.kernels import kernels_document
from gpuledger.read.ncu.reader import open_kernels


@click.command()
@click.argument("ncu", nargs=-1, required=True, type=click.Path(path_type=Path))
@language_option
@limit_option
@output_options
def kernels(ncu: tuple[Path, ...], language: str, limits: Limits, output: Output) -> None:
    """Say what limits each kernel in NCU: memory, compute or latency, and what to try.

    NCU is one or more reports of Nsight Compute: .ncu-rep files, or what `ncu --csv` printed (--page raw, --page
    details, or --metrics). Each launch is judged against the roofs of the device that it ran on; kernels are told
    apart by name, launch shape and size of problem. The .ncu-rep format needs `pip install 'gpuledger[ncu]'`.

    \b
    Examples:
      gpuledger kernels layer.ncu-rep
      gpuledger kernels details.csv -o kernels.json
      gpuledger report run.sqlite --ncu=layer.ncu-rep
    """
    with progress(quiet=output.quiet) as tell:
        report = open_kernels(ncu, limits=limits, progress=tell)
    made = put_together([judged(each) for each in report.launches])
    output.show(kernels_document([path.name for path in ncu], made, report.health), language=language)
