"""`dataclass`, finished when it is first used: defining a class takes a twentieth of the standard decorator's time.

That one compiles six functions for each class, 0.8 ms, and a report defines 220 classes and makes objects of 100. Here
a class has its slots at once, its `__init__` when the first object is made, and all else that the standard library
writes for it (`__eq__`, `__repr__`, `__hash__`, its fields) when that is asked for, not by `replace` and `field_names`.
Type checkers see the standard library's, and tests/system/test_records.py holds each use of both against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace

    def field_names(kind: type) -> tuple[str, ...]:
        """What the fields of such records are called, in order."""

else:
    import dataclasses
    from collections.abc import Callable
    from dataclasses import MISSING, Field, FrozenInstanceError
    from functools import partial
    from threading import RLock
    from typing import Any, Final
    from weakref import WeakKeyDictionary

    _USUAL: Final = {"frozen", "slots", "eq", "repr"}
    """Options that are understood here; with any other, the standard decorator does it all at once."""

    _FINISHING: Final = RLock()
    """Findings are looked for by two threads, which may come to a class at once; a class may finish its bases."""

    _DEFAULTS: Final[WeakKeyDictionary[type, dict[str, Any]]] = WeakKeyDictionary()
    """The fields of each class, those of its bases first, with the default or the `field` that was written."""

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The standard decorator, or what comes to the same later."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if not options.keys() <= _USUAL:
            return dataclasses.dataclass(**options)(cls)
        return _Unfinished(cls, options).made

    def replace(record: Any, /, **changes: Any) -> Any:
        """The same record with some fields of another value."""
        if type(record) not in _DEFAULTS:
            return dataclasses.replace(record, **changes)
        kept = {name: getattr(record, name) for name in _DEFAULTS[type(record)] if name not in changes}
        return type(record)(**kept, **changes)

    def field_names(kind: type) -> tuple[str, ...]:
        """What they are called, in order."""
        return tuple(_DEFAULTS[kind] if kind in _DEFAULTS else [field.name for field in dataclasses.fields(kind)])

    class _Unfinished:
        """A class, and the one that it was made from, for the standard library to write the rest of."""

        def __init__(self, source: type, options: dict[str, bool]) -> None:
            self.source, self.options = source, options
            own = source.__dict__
            self.made = made = _made_again(source, has_slots=options.get("slots", False))
            self.awaited = {"__dataclass_fields__", "__dataclass_params__", "__match_args__"} - own.keys()
            for name in self.awaited:
                setattr(made, name, _Awaited(self, name))
            is_compared, is_frozen = options.get("eq", True), options.get("frozen", False)
            functions = {"__init__"} | ({"__repr__"} if options.get("repr", True) else set())
            functions = (functions | ({"__eq__"} if is_compared else set())) - own.keys()
            if is_compared and own.get("__hash__") is None:
                if is_frozen:
                    functions.add("__hash__")
                else:
                    made.__hash__ = None
            for name in functions:
                setattr(made, name, self._first(name))
            self.awaited |= functions
            if is_frozen:
                made.__setattr__, made.__delattr__ = _refuse_assigning, _refuse_deleting
                if options.get("slots") and "__getstate__" not in own:
                    made.__getstate__, made.__setstate__ = _state, _restore

        def finish(self) -> None:
            """Let the standard library write what is awaited, and take it over."""
            with _FINISHING:
                if not self.awaited:  # another thread came first
                    return
                written = dataclasses.dataclass(**self.options)(self.source).__dict__
                for name in self.awaited:
                    setattr(self.made, name, written[name])
                self.awaited.clear()

        def _first(self, name: str) -> Callable[..., Any]:
            def first(instance: Any, /, *given: Any, **named: Any) -> Any:
                if name == "__init__" and self.made in _DEFAULTS:
                    self.made.__init__ = _init(self.made, _DEFAULTS[self.made])
                    self.awaited.discard(name)
                else:
                    self.finish()
                return getattr(self.made, name)(instance, *given, **named)

            return first

    class _Awaited:
        """An attribute of a class that is there once the class is finished."""

        def __init__(self, of: _Unfinished, name: str) -> None:
            self.of, self.name = of, name

        def __get__(self, instance: object, owner: type) -> Any:
            self.of.finish()
            return self.of.made.__dict__[self.name]

    def _made_again(source: type, *, has_slots: bool) -> type:
        """The class again, if so asked with a slot for each field that no base has one for."""
        written = source.__dict__
        said = written.get("__annotations__", {})
        fields = [name for name, kind in said.items() if not kind.startswith(("ClassVar", "typing.ClassVar"))]
        content = {name: written[name] for name in written if name not in {*fields, "__dict__", "__weakref__"}}
        if has_slots:
            inherited = {name for base in source.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
            content["__slots__"] = tuple(name for name in fields if name not in inherited)
        made = type(source)(source.__name__, source.__bases__, content)
        made.__qualname__ = source.__qualname__
        bases = [base for base in source.__mro__[-2:0:-1] if "__dataclass_fields__" in base.__dict__]
        own = {name: written.get(name, MISSING) for name in fields}
        if all(base in _DEFAULTS for base in bases) and all(map(_is_usual, own.values())):
            _DEFAULTS[made] = {name: default for base in bases for name, default in _DEFAULTS[base].items()} | own
        return made

    def _is_usual(default: Any) -> bool:
        return not isinstance(default, Field) or (default.init and default.kw_only in {False, MISSING})

    def _init(made: type, defaults: dict[str, Any]) -> Callable[..., None]:
        """An `__init__` that puts each value into its slot, or its place where there are none."""
        parameters, lines, known = ["self"], list[str](), dict[str, Any]({"_MISSING": MISSING})
        for at, (name, written) in enumerate(defaults.items()):
            slot = getattr(made, name, None)
            known[f"_set{at}"] = partial(_put, name) if slot is None else slot.__set__
            default = written.default if isinstance(written, Field) else written
            factory = written.default_factory if isinstance(written, Field) else MISSING
            if factory is not MISSING:
                known[f"_make{at}"] = factory
                parameters.append(f"{name}=_MISSING")
                lines.append(f" _set{at}(self, _make{at}() if {name} is _MISSING else {name})")
                continue
            if default is not MISSING:
                known[f"_default{at}"] = default
            parameters.append(name if default is MISSING else f"{name}=_default{at}")
            lines.append(f" _set{at}(self, {name})")
        if hasattr(made, "__post_init__"):
            lines.append(" self.__post_init__()")
        exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or [" pass"]), known)  # noqa: S102
        init: Callable[..., None] = known["__init__"]
        init.__qualname__ = f"{made.__qualname__}.__init__"
        return init

    def _put(name: str, instance: Any, value: object) -> None:
        instance.__dict__[name] = value

    def _refuse_assigning(_: object, name: str, __: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deleting(_: object, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
