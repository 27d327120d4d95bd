"""The user's own code: MODULE:FUNCTION in, the function out. What goes wrong in it becomes a sentence with its line."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from gpuledger.errors import GpuledgerError

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the user's."""

    function: Callable[[], object]
    file: str
    """Where it is defined, as far as that can be told."""
    line: int


def named(text: str) -> UserFunction:
    """The function that `MODULE:FUNCTION` names; MODULE is a module, or a path that ends in .py."""
    module_name, _, name = text.rpartition(":")
    is_path = module_name.endswith(".py")
    file = module_name if is_path else ""
    with blamed(file, 0, "cannot be imported"), stdout_to_stderr():
        module = _of_file(Path(module_name)) if is_path else _of_module(module_name)
    file = str(getattr(module, "__file__", None) or module_name)
    function = _attribute(module, name, file)
    code = getattr(inspect.unwrap(function), "__code__", None)
    found = UserFunction(function, code.co_filename if code else file, code.co_firstlineno if code else 0)
    return checked(found, function)


def checked(of: UserFunction, operation: Callable[[], object]) -> UserFunction:
    """The same, unless calling the operation would run nothing of it."""
    call = operation if inspect.isroutine(operation) else type(operation).__call__
    for is_one, what in (
        (inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call), "a generator"),
        (inspect.iscoroutinefunction(call), "a coroutine"),
    ):
        if is_one:
            raise GpuledgerError(
                f"{_place(of.file, of.line)}: is {what}: calling it only prepares it to run",
                hint="time a plain function that does the work",
            )
    return of


def to_be_called(of: UserFunction, made: object) -> Callable[..., object]:
    """What a function returned, where that has to be something to call."""
    if callable(made):
        return made
    raise GpuledgerError(
        f"{_place(of.file, of.line)}: returns {type(made).__name__}, which cannot be called with the input",
        hint="with --input, FUNCTION returns the module or function to time",
    )


@contextlib.contextmanager
def blamed(file: str, line: int, what: str) -> Iterator[None]:
    """Turns what the user's code raises into one sentence, with the line in `file` where it came from."""
    try:
        yield
    except GpuledgerError:
        raise
    except (Exception, SystemExit) as error:
        at = _place(*_origin(error, file, line))
        reason = " ".join(str(error).split())
        reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
        kind = type(error).__name__
        raise GpuledgerError(
            f"{at}: {what}: {kind}: {reason}" if reason else f"{at}: {what}: {kind}",
            hint="GPULEDGER_DEBUG=1 shows the whole traceback",
        ) from error


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """What the user's code prints is not our result."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _of_module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does
    top = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.") or error.name == top):
            raise
        raise GpuledgerError(
            f"{name}: no such module, here or where Python looks",
            hint="name a file by its path: folder/file.py:FUNCTION",
        ) from None


def _of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise GpuledgerError(f"{path}: no such file")
    sys.path.insert(0, str(path.resolve().parent))  # so that it can import what lies beside it
    name = path.stem if path.stem not in sys.modules else f"gpuledger_timed_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise GpuledgerError(f"{path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, name: str, file: str) -> Callable[[], object]:
    """A function of the module, or of a class in it."""
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            callables = [each for each in dir(found) if callable(getattr(found, each)) and not each.startswith("_")]
            close = difflib.get_close_matches(part, callables, n=1)
            there = f"there are: {', '.join(callables[:8])}" if callables else ""
            raise GpuledgerError(
                f"{_shown(file)}: no {part} in it", hint=f"did you mean {close[0]}?" if close else there
            )
        found = getattr(found, part)
    if not callable(found):
        raise GpuledgerError(f"{_shown(file)}: {name} is of type {type(found).__name__}, not a function")
    return found


def _origin(error: BaseException, file: str, line: int) -> tuple[str, int]:
    """The innermost line of the user's file that led to the error; where there is none, the line given."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file and _is_same(frame.filename, file)]
    if own:
        return own[-1].filename, own[-1].lineno or 0
    outside = [frame for frame in frames if not _is_ours(frame.filename)]
    return (file, line) if file else (outside[-1].filename, outside[-1].lineno or 0) if outside else ("the module", 0)


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _is_ours(file: str) -> bool:
    """Of this package, or of Python's own import."""
    here = str(Path(__file__).parent.parent)
    return file.startswith((here, "<frozen")) or Path(file).parent.name == "importlib"


def _place(file: str, line: int) -> str:
    return f"{_shown(file)}:{line}" if line else _shown(file)


def _shown(file: str) -> str:
    """As seen from here, where it lies below."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
