"""What a case may expect of a GPU's steady kernels: their light, and how long each way of doing better leaves them.

Kernels are told by their place in the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from gpuledger.analyse.light import needless_work, slow_kernels, wasted_work
from gpuledger.analyse.light.books import light_books
from gpuledger.analyse.light.kernel_light import LightSource, kernel_light
from gpuledger.analyse.light.reachable import LightRoof
from gpuledger.analyse.light.steady_kernels import KernelSavings, SteadyKernels, all_steady
from support.cases.case import Case, Expectation, Unexpected, same, us


def _in_last_step(kernels: SteadyKernels) -> list[int]:
    return np.flatnonzero(kernels.step == kernels.step.max()).tolist()


def _way(case: Case, rest: str) -> tuple[bool, str]:
    """`way use_all_sms 0:51.75 3:10`: what changes, with the microseconds that are left."""
    name, _, wanted = rest.partition(" ")
    modules = [module for module in (wasted_work, slow_kernels, needless_work) if hasattr(module, name)]
    if not modules:
        raise Unexpected(f"{name} is no way of doing better")
    way: Callable[[SteadyKernels], KernelSavings] = getattr(modules[0], name)
    kernels = all_steady(case.trace, case.device)
    saved = way(kernels)
    left = dict(zip(kernels.places(saved.operations).tolist(), saved.duration_ns.tolist(), strict=True))
    shown = [f"{at}:{us(left[place])}" for at, place in enumerate(_in_last_step(kernels)) if place in left]
    found = " ".join(shown) or "none"
    return found == wanted, found


def _light(case: Case, rest: str) -> tuple[bool, str]:
    """`light 0:93.75 1:none`: microseconds at the roof."""
    kernels = all_steady(case.trace, case.device)
    light = kernel_light(kernels)
    shown = [
        f"{at}:{us(round(light.light_ns[place])) if light.is_known[place] else 'none'}"
        for at, place in enumerate(_in_last_step(kernels))
    ]
    return " ".join(shown) == rest, " ".join(shown)


def _light_by(case: Case, rest: str) -> tuple[bool, str]:
    """`light-by 0:shapes,memory`: what light is known from, and the roof."""
    kernels = all_steady(case.trace, case.device)
    light = kernel_light(kernels)
    shown = [
        f"{at}:{LightSource(int(light.source[place])).name.lower()},{LightRoof(int(light.roof[place])).name.lower()}"
        for at, place in enumerate(_in_last_step(kernels))
    ]
    return " ".join(shown) == rest, " ".join(shown)


def _compute(case: Case, rest: str) -> tuple[bool, str]:
    """`compute light 5, lost 3, avoidable 2, unknown 1`: of all steady steps."""
    books = light_books(case.device, all_steady(case.trace, case.device))
    if books is None:
        raise Unexpected("nothing is computed")
    parts = ("light", "lost", "avoidable", "unknown")
    return same(rest, {part: getattr(books.whole, f"{part}_ns") for part in parts})


LIGHT_WORDS: Mapping[str, Expectation] = {"way": _way, "light": _light, "light-by": _light_by, "compute": _compute}
