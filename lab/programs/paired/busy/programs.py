"""All programs that keep a GPU busy and use it badly, and two that use it well."""

from __future__ import annotations

from lab.programs.paired.busy import decoders, models, operators

PROGRAMS = (*models.PROGRAMS, *decoders.PROGRAMS, *operators.PROGRAMS)
