"""What the environment of a program really is: a command in, the same command with a look at it out.

What we set may be lost or changed on the way: ssh and kubectl hand over nothing of ours, a login shell reads files
that set variables, a text for a shell exports its own. So a small script stands right before the program. It writes
down the variables that a manifest may hold, and starts the program only if those that were set arrived.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuledger.capture.environment import environment, kept_names
from gpuledger.capture.main_program import main_program
from gpuledger.capture.program_place import program_place
from gpuledger.capture.secret_names import looks_secret
from gpuledger.capture.withheld import shown_value
from gpuledger.errors import GpuledgerError, ToolFailed

_SCRIPT: Final = (
    "gpuledger_file=$1 gpuledger_names=$2 gpuledger_lost=; shift 2; "
    'while [ "$1" != -- ]; do '
    'eval "gpuledger_value=\\${${1%%=*}+is}\\${${1%%=*}-}"; '
    '[ "$gpuledger_value" = "is${1#*=}" ] || gpuledger_lost="$gpuledger_lost ${1%%=*}"; shift; done; shift; '
    "(umask 077; command -v tr && command -v grep && [ -r /proc/$$/environ ] || exit; "
    "{ tr '\\000\\012' '\\012\\001' < /proc/$$/environ | LC_ALL=C grep -E \"$gpuledger_names\"; "
    'for gpuledger_value in $gpuledger_lost; do echo "?$gpuledger_value"; done; } > "$gpuledger_file.part"; '
    'mv "$gpuledger_file.part" "$gpuledger_file") > /dev/null 2>&1; '
    '[ -z "$gpuledger_lost" ] || { echo "gpuledger: the program is not started, as it would not have had what '
    'was set:$gpuledger_lost" >&2; exit 1; }; [ $# -eq 0 ] || exec "$@"'
)
"""For any shell of POSIX. In the file a line is a variable, line ends in values as byte 1, or ? and what was lost.

Names of variables are checked before they get here, so `eval` sees nothing else. Ours are long: a short one may be the
program's own, and would be changed in its environment.
"""


@dataclass(frozen=True, slots=True)
class SeenEnvironment:
    """What a program had."""

    variables: Mapping[str, str]
    lost: tuple[str, ...]
    """Names that were set, and had another value or none."""


@dataclass(frozen=True, slots=True)
class Witness:
    """Looks at the environment of one program."""

    file: str
    """Where it writes what it saw, on the machine where the program runs."""
    names: tuple[str, ...]
    """What the user wants in the manifest."""
    wanted: Mapping[str, str]
    """What the program is to have."""

    @property
    def words(self) -> tuple[str, ...]:
        """What stands before the program. Secrets are not looked at: their values would stand here, too."""
        kept = [name.replace("*", "[^=]*") for name in kept_names(self.names) if not looks_secret(name)]
        settings = (f"{name}={value}" for name, value in self.wanted.items() if not looks_secret(name))
        return ("sh", "-c", _SCRIPT, "gpuledger", self.file, f"^({'|'.join(kept)})=", *settings, "--")

    def before(self, command: Sequence[str]) -> tuple[str, ...]:
        """The command with the look before its program; in a text for a shell, before the program in it."""
        main = main_program(command)
        if main.in_text is None:
            return (*command[: main.place], *self.words, *command[main.place :])
        text, begin, end = command[main.place], main.in_text.words[0].begin, main.in_text.end
        sets = program_place(main.in_text.plain, in_text=True).environment
        look = " ".join((*(main.in_text.words[place].source for place in sets), shlex.join(self.words)))
        changed = f"{text[:begin]}{{ {look} || exit; {text[begin:end]}; }}{text[end:]}"
        return (*command[: main.place], changed, *command[main.place + 1 :])

    def read(self, text: str) -> SeenEnvironment:
        """What the file says; lines of others, such as a connection's, are left out."""
        lines = [line for line in text.split("\n") if re.match(r"\??[A-Za-z_]\w*(=|$)", line, re.ASCII)]
        seen = dict(
            line.replace("\1", "\n").split("=", 1) for line in lines if not line.startswith("?") and "=" in line
        )
        lost = tuple(line[1:] for line in lines if line.startswith("?"))
        return SeenEnvironment(environment(seen, self.names), lost)

    def complaint(self, seen: SeenEnvironment | None, program: str) -> GpuledgerError | None:
        """What is wrong with what was seen."""
        if seen is None and self.wanted:
            return ToolFailed(
                f"whether {', '.join(self.wanted)} reached the program could not be read back",
                found=f"the program is `{program}`; its environment is looked at right before it starts",
                hint="it needs sh, tr, grep and /proc where the program runs, and that the program is reached",
            )
        if seen is None or not seen.lost:
            return None
        name = seen.lost[0]
        had = f"{name}={seen.variables[name]}" if name in seen.variables else f"no {name}"
        more = f", and {len(seen.lost) - 1} more" if len(seen.lost) > 1 else ""
        return ToolFailed(
            f"the program was not started: it would not have had {name}={shown_value(name, self.wanted[name])}{more}",
            found=f"right before `{program}` there was {had}",
            hint="something on the way sets it again, e.g. a file that the login shell reads, or a line of the text "
            "before the program: take it out there, or set it behind that",
        )
