"""Programs made of libraries, in two variants: transformers, torchvision and torch's own optimizers and loaders.

Models are built from a configuration with random weights; nothing is fetched. What is lost is what such programs lose
in the wild: tokens through a list, an optimizer that loops, a loader with pageable memory, experts in a loop.
"""

from __future__ import annotations

from lab.programs.paired import language, vision

PROGRAMS = (*language.PROGRAMS, *vision.PROGRAMS)
