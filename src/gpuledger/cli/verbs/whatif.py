"""`gpuledger whatif`: changes that the profile does not allow are errors; the others are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from gpuledger.cli.main import sentence
from gpuledger.cli.output import Output
from gpuledger.errors import NothingRecorded

if TYPE_CHECKING:
    from gpuledger.present.views.whatif import WhatIfAnswer


def whatif(verb: Callable[..., WhatIfAnswer], output: Output, **asked: Any) -> None:
    """Show what the changes save; those that the profile does not allow are errors after it."""
    answer, changes = verb(**asked), asked["changes"]
    if len(answer.refused) < len(changes) or not changes:
        output.show(answer.document())
    output.progress.clear()
    refused = [NothingRecorded(refusal.claim, found=refusal.found, hint=refusal.hint) for refusal in answer.refused]
    for refusal in refused[:-1]:
        click.echo(sentence(refusal), err=True)
    if refused:
        raise refused[-1]
