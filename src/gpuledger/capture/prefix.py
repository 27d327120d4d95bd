"""What --via says: a prefix in, what becomes of the words behind it out, and whether it asks for a terminal.

ssh puts the words behind it into one line, which a shell takes apart again; kubectl, docker and the like hand them
over as they are. A terminal is refused: it changes line ends, mixes errors into the output, and ends with the
connection.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gpuledger.errors import GpuledgerError

_SSH: Final = "ssh"
_VALUE_LETTERS: Final = {
    _SSH: "BbcDEeFIiJLlmOopQRSWw",
    **dict.fromkeys(("kubectl", "oc"), "cfnsv"),
    **dict.fromkeys(("docker", "podman", "nerdctl", "crictl"), "euwr"),
}
"""The programs that are known here, with their options of one letter that take a value."""
_TERMINAL_ASKED: Final = ("requesttty=yes", "requesttty=force")


def prefix_words(via: str) -> tuple[str, ...]:
    """The words of --via, if a command can be put behind them."""
    try:
        words = tuple(shlex.split(via))
    except ValueError as error:
        raise GpuledgerError(f"--via={via!r}: {str(error).lower()}") from None
    if not words:
        raise GpuledgerError("--via is empty", hint="e.g. --via='ssh HOST' or --via='kubectl exec POD --'")
    if Path(words[0]).name in ("kubectl", "oc") and "--" not in words:
        raise GpuledgerError(f"--via={via!r}: kubectl takes what follows for its own options", hint="end it with --")
    for program, option in [(program, option) for program, options in _programs(words) for option in options]:
        if _asks_for_terminal(program, option):
            raise GpuledgerError(
                f"--via={via!r}: {option} asks {program} for a terminal",
                found="a terminal changes line ends, so what comes back is damaged, and puts errors into the output",
                hint=f"leave it out{'; -i alone may stay' if program != _SSH else ''}",
            )
    return words


def shells_behind(words: Sequence[str]) -> int:
    """How many shells take apart what is put behind the prefix: one for each ssh."""
    return sum(1 for program, _ in _programs(words) if program == _SSH)


def _programs(words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The known programs of a prefix, each with its options and their values; a value or a host is no program."""
    place = 0
    while place < len(words):
        program = Path(words[place]).name
        place += 1
        if program not in _VALUE_LETTERS:
            continue
        options = list[str]()
        has_host = False
        while place < len(words) and words[place] != "--":
            word = words[place]
            if word.startswith("-"):
                taken = 1 + _takes_next(program, word)
                options.append(" ".join(words[place : place + taken]))
                place += taken
            elif program == _SSH and not has_host:
                has_host, place = True, place + 1
            elif program == _SSH or Path(word).name in _VALUE_LETTERS:
                break
            else:
                place += 1
        yield program, options


def _takes_next(program: str, option: str) -> bool:
    """Whether an option's value is the next word: its last letter takes one, and none before does."""
    if option.startswith("--"):
        return False
    valued = [letter in _VALUE_LETTERS[program] for letter in option[1:]]
    return bool(valued) and valued[-1] and not any(valued[:-1])


def _asks_for_terminal(program: str, option: str) -> bool:
    if option.startswith("--"):
        return option in ("--tty", "--tty=true")
    for place, letter in enumerate(option[1:], 1):
        if letter in _VALUE_LETTERS[program]:
            setting = option[place + 1 :].replace(" ", "").lower()
            return program == _SSH and letter == "o" and setting in _TERMINAL_ASKED
        if letter == "t":
            return True
    return False
