"""Findings about a job of many ranks."""

from __future__ import annotations
