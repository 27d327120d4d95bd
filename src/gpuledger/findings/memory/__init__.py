"""Findings about memory: of a snapshot, and what a timeline allocates in every step."""

from __future__ import annotations
