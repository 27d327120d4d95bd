"""Answers that took a while, kept as they were written: the same question about the same files is answered at once.

A question is a verb with its options, its format and the width it is written for, asked of files in one state by one
version of the code. Whatever else an answer may depend on is part of the question too: manifests beside a profile,
pyproject.toml, the environment's GPULEDGER_ settings. Nothing here loads what reads profiles. docs/concepts/cache.md
says what is kept, and where.
"""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, Final

import click
from msgspec import Struct

from gpuledger.capture.output_files import manifests_of, samples_of
from gpuledger.cli.inputs import order_of_options
from gpuledger.system.files import SEPARATOR
from gpuledger.system.kept_files import (
    SMALL_BYTES,
    WORTH_S,
    FileState,
    KeptFiles,
    answers,
    file_state,
    keeps_everything,
    keeps_nothing,
    kept_name,
    kept_of,
    now_ns,
    place_of,
)
from gpuledger.verbs import VERBS
from gpuledger.version import code_state

MOST_BYTES: Final = 64_000_000
"""A larger answer is not kept."""
MOST_FILES: Final = 4096
"""Nor one about more files: whether all are as they were would take longer than is worth it."""

FILES: Final = (
    *("profile", "profiles", "more", "before", "after", "mock", "model"),
    *("names_from", "memory", "families", "ranks"),
)
"""The parameters of verbs that name what is read: its state is part of the question."""
DOES_MORE: Final = ("ncu", "charts", "junit", "github", "baseline", "gates", "gate", "known_file", "scheduler")
"""With one of these a verb writes other files, ends with another exit code, says when it was asked, or asks others."""
WHERE_TO: Final = ("path", "force", "quiet", "format_")
"""Where an answer goes is no part of the question; in which format it is written is told apart."""


class AskedQuestion(Struct, frozen=True):
    """A question whose answer may be kept."""

    folder: KeptFiles
    name: str
    state: FileState
    asked_ns: int

    def kept(self) -> tuple[str, list[str]] | None:
        """The answer and the remarks beside it, if they are kept and whole."""
        try:
            mapped = self.folder.mapped(self.name)
            if mapped is None:
                self.folder.remove_other_states(self.name)
                return None
            digest, content = mapped[: hashlib.sha256().digest_size], mapped[hashlib.sha256().digest_size :]
            if hashlib.sha256(content).digest() != digest:
                self.folder.remove(self.name)
                return None
        except OSError:
            return None
        remarks, _, text = content.partition(b"\n")
        return text.decode(errors="surrogatepass"), json.loads(remarks)

    def is_worth_keeping(self, seconds: float) -> bool:
        """Whether it took long enough to answer, or everything is to be kept."""
        return seconds >= WORTH_S or keeps_everything()

    def keep(self, text: str, remarks: list[str], asked_now: AskedQuestion | None) -> None:
        """Keep an answer, unless a file has changed since the question, or is so new that it could without a trace.

        `asked_now` is the question as it would be asked after the answer: of what is kept there is more by then.
        """
        pieces = [json.dumps(remarks).encode(), b"\n", text.encode(errors="surrogatepass")]
        size = sum(map(len, pieces))
        if size > MOST_BYTES or asked_now is None or asked_now.state != self.state:
            return
        if not self.state.was_settled(self.asked_ns):
            return
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        with contextlib.suppress(OSError):  # a full disk, no permission: the next answer takes as long as this one
            self.folder.write(asked_now.name, digest.digest_size + size, [digest.digest(), *pieces], Event())


def asked_question(context: click.Context, written: tuple[object, ...]) -> AskedQuestion | None:
    """The question that a command asks, `written` in this way; None where its answer is not to be kept."""
    verb, parameters = context.command.name or "", context.params
    folder = answers()
    if keeps_nothing() or verb not in VERBS or not VERBS[verb].answers or not folder.path.is_absolute():
        return None
    if any(parameters.get(name) for name in DOES_MORE) or parameters.get("sql") == "-":
        return None
    asked_ns, state = now_ns(), None
    with contextlib.suppress(OSError, ValueError):  # a name that cannot be one, a folder that cannot be looked into
        files = tuple(islice(_files(parameters), MOST_FILES + 1))
        state = _state(files) if len(files) <= MOST_FILES else None
    if state is None or (state.size_bytes < SMALL_BYTES and not keeps_everything()):
        return None
    places = [place_of(*_split(text)) for text in _named(parameters)]
    place = places[0] if len(places) == 1 else hashlib.sha256(repr(places).encode()).hexdigest()
    question = (
        *(verb, sorted((name, repr(value)) for name, value in parameters.items() if name not in WHERE_TO)),
        *(order_of_options(context), written, [str(path.resolve()) for path in files]),
        *(state.digest, _settings(), kept_of(place) if verb == "info" else None),
    )
    digest = hashlib.sha256(repr(question).encode()).hexdigest()
    name = kept_name(place, (state.digest, code_state("")), verb.replace("-", "_"), digest)
    return AskedQuestion(folder, name, state, asked_ns)


def _named(parameters: dict[str, Any]) -> Iterator[str]:
    """What the command line calls the files, folders and globs that are read."""
    for name in FILES:
        given = parameters.get(name) or ()
        yield from map(str, given if isinstance(given, tuple) else (given,))


def _split(text: str) -> tuple[Path, str]:
    """A file, and the member where that is an archive."""
    outer, separator, member = text.partition(SEPARATOR)
    return (Path(outer), member) if separator and not os.path.lexists(text) else (Path(text), "")


def _files(parameters: dict[str, Any]) -> Iterator[Path]:
    """Every file that is named, those in folders at any depth, the manifests of captures, and the logs of databases."""
    for text in _named(parameters):
        for path in _paths(text):
            if path.is_dir():
                for here, folders, names in os.walk(path):
                    folders.sort()
                    yield from (Path(here, name) for name in sorted(names))
            else:
                yield path
            beside = (
                *manifests_of(path),
                *samples_of(path),
                *(path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-journal")),
            )
            yield from (other for other in beside if other.is_file())


def _paths(text: str) -> list[Path]:
    """A file or folder of this name, an archive with this member, or what the glob matches."""
    path, _ = _split(text)
    if os.path.lexists(path) or not glob.has_magic(text):
        return [path]
    return [Path(match) for match in sorted(glob.glob(text, recursive=True))]  # noqa: PTH207


def _state(files: tuple[Path, ...]) -> FileState | None:
    try:
        return file_state(files) if files else None
    except (OSError, RuntimeError, ValueError):  # gone, or a loop of links
        return None


def _settings() -> tuple[object, ...]:
    """What else may change an answer: settings of ours, and kernel families in the project's pyproject.toml."""
    ours = sorted((name, value) for name, value in os.environ.items() if name.startswith("GPULEDGER_"))
    project = Path("pyproject.toml")
    return ours, _state((project,)) if project.is_file() else None
