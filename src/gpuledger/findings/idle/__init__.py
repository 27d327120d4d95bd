"""Findings about a GPU that has nothing to run."""

from __future__ import annotations
