"""Findings about what moves: copies, communication, pages of unified memory."""

from __future__ import annotations
