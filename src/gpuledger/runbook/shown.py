"""What of a run people may see: settings and commands in, the same without secrets out.

A value that is a secret by the name of its variable is withheld wherever the runbook puts it in a command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpuledger.capture.withheld import may_not_be_shown, shown_value, without_secrets
from gpuledger.runbook.plan import CellJob


def shown_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Variables by name."""
    return {name: shown_value(name, text) for name, text in settings.items()}


def shown_command(command: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """A command in which these settings may stand."""
    return without_secrets(command, known=[text for name, text in settings.items() if may_not_be_shown(name, text)])


def shown_jobs(jobs: Sequence[CellJob], settings: Mapping[str, str]) -> list[CellJob]:
    """Steps with commands that are for people to read."""
    return [
        replace(job, commands=tuple(tuple(shown_command(command, settings)) for command in job.commands))
        for job in jobs
    ]
