"""Findings about kernels that are slow, or need not run, for a reason that each shows by itself."""

from __future__ import annotations
