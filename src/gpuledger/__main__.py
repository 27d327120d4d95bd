"""The `gpuledger` command, and `python -m gpuledger`: an interruption while the rest is imported ends in one word."""

from __future__ import annotations

import gc
import sys

TYPE_CHECKING = False  # `typing` itself is imported where an interruption is caught
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> NoReturn:
    """Load the command and run it; it ends the process itself."""
    gc.disable()  # imports leave nothing behind; the verb, once it is loaded, turns it on
    try:
        from gpuledger.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
