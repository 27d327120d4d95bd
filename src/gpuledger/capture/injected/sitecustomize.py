"""First on PYTHONPATH of a program that is captured: starts the sampler, then runs the sitecustomize that this one hides.

Any Python that the program starts runs it, an old one too: only what every version knows stands here.
"""

import sys


def _start():
    from os.path import abspath, dirname

    ours = dirname(abspath(__file__))
    try:
        if sys.version_info >= (3, 8):
            import gpuledger_sampler

            gpuledger_sampler.start()
    except Exception:  # the program's own run comes first: it is then not sampled, which the capture says
        pass
    sys.path[:] = [folder for folder in sys.path if abspath(folder) != ours]
    own = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - the program's own, or its distribution's
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


_start()
