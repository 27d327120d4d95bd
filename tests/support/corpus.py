"""Profiles that others made, where they lie beside the checkout."""

from __future__ import annotations

from support.command import ROOT

CORPUS = ROOT.parent / "shared" / "corpus" / "nsys"


FILES = sorted(CORPUS.glob("*.sqlite.xz"))
