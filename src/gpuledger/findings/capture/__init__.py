"""Findings about the recording itself: what it leaves open, and what it cost. They save nothing by themselves."""

from __future__ import annotations
