"""Findings about when time is lost, not why."""

from __future__ import annotations
