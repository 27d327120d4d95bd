"""First on PYTHONPATH of a program that is captured: starts the sampler, then runs the sitecustomize that it hides.

Any Python that the program starts runs it, an old one too: only what every version knows stands here.
"""

import os
import sys


def _start():  # type: ignore[no-untyped-def]
    from os.path import abspath, dirname

    ours = dirname(abspath(__file__))
    try:
        if sys.version_info >= (3, 8):
            import gpuledger_sampler

            gpuledger_sampler.start()
    except Exception as error:  # the program's own run comes first
        os.write(2, ("gpuledger: this Python is not sampled: " + str(error) + "\n").encode())
    sys.path[:] = [folder for folder in sys.path if abspath(folder) != ours]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - the program's own, or its distribution's
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own  # type: ignore[assignment]


_start()  # type: ignore[no-untyped-call]
