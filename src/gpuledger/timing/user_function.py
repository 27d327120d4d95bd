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
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from gpuledger.errors import GpuledgerError

_LONGEST = 200


class UserFunction(Struct, frozen=True):
    """A function of the user's."""

    function: Callable[[], object]
    file: str  # where it is defined, as far as that can be told
    line: int


def load_function(text: str) -> UserFunction:
    """The function that `MODULE:FUNCTION` names; MODULE is a module, or a path that ends in .py."""
    module_name, _, name = text.rpartition(":")
    is_path = module_name.endswith(".py")
    file = module_name if is_path else ""
    with blame_user_code(file, 0, "cannot be imported"), stdout_to_stderr():
        module = _of_file(Path(module_name)) if is_path else _of_module(module_name)
    file = str(getattr(module, "__file__", None) or module_name)
    function = _attribute(module, name, file)
    code = getattr(inspect.unwrap(function), "__code__", None)
    found = UserFunction(function, code.co_filename if code else file, code.co_firstlineno if code else 0)
    return check_runs(found, function)


def check_runs(of: UserFunction, operation: Callable[[], object]) -> UserFunction:
    """The same, unless calling the operation would run nothing of it."""
    call = operation if inspect.isroutine(operation) else type(operation).__call__
    is_generator = inspect.isgeneratorfunction(call) or inspect.isasyncgenfunction(call)
    if is_generator or inspect.iscoroutinefunction(call):
        what = "a generator" if is_generator else "a coroutine"
        raise GpuledgerError(
            f"{_place(of.file, of.line)}: is {what}: calling it only prepares it to run",
            hint="time a plain function that does the work",
        )
    return of


def require_callable(of: UserFunction, made: object) -> Callable[..., object]:
    """What a function returned, where that has to be something to call."""
    if callable(made):
        return made
    raise GpuledgerError(
        f"{_place(of.file, of.line)}: returns {type(made).__name__}, which cannot be called with the input",
        hint="with --input, FUNCTION returns the module or function to time",
    )


@contextlib.contextmanager
def blame_user_code(file: str, line: int, what: str) -> Iterator[None]:
    """Turns what the user's code raises into one sentence, with the line in `file` where it came from."""
    try:
        yield
    except GpuledgerError:
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())
        reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
        claim = f"{_place(*_origin(error, file, line))}: {what}: {type(error).__name__}"
        hint = "GPULEDGER_DEBUG=1 shows the whole traceback"
        raise GpuledgerError(f"{claim}: {reason}" if reason else claim, hint=hint) from error


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
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            callables = [name for name in dir(value) if callable(getattr(value, name)) and not name.startswith("_")]
            close = difflib.get_close_matches(part, callables, n=1)
            there = f"there are: {', '.join(callables[:8])}" if callables else ""
            hint = f"did you mean {close[0]}?" if close else there
            raise GpuledgerError(f"{_shown(file)}: no {part} in it", hint=hint)
        value = getattr(value, part)
    if not callable(value):
        raise GpuledgerError(f"{_shown(file)}: {name} is of type {type(value).__name__}, not a function")
    return value


def _origin(error: BaseException, file: str, line: int) -> tuple[str, int]:
    """The innermost line of the user's file that led to the error; where there is none, the line given."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 0
    frames = traceback.extract_tb(error.__traceback__)
    if file:
        same = [frame for frame in frames if os.path.realpath(frame.filename) == os.path.realpath(file)]
        return (same[-1].filename, same[-1].lineno or 0) if same else (file, line)
    ours = (str(Path(__file__).parent.parent), "<frozen")  # this package, and Python's own import
    frames_outside = (
        frame
        for frame in reversed(frames)
        if not frame.filename.startswith(ours) and Path(frame.filename).parent.name != "importlib"
    )
    return next(((frame.filename, frame.lineno or 0) for frame in frames_outside), ("the module", 0))


def _place(file: str, line: int) -> str:
    return f"{_shown(file)}:{line}" if line else _shown(file)


def _shown(file: str) -> str:
    """As seen from here, where it lies below."""
    try:
        return str(Path(file).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file
