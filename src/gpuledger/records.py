"""`dataclass`, finished when it is first used: defining a class takes a twentieth of the standard decorator's time.

That one compiles six functions for each class, 0.8 ms, and a report defines 250 classes and makes objects of some. Here
a class has its slots at once, and what the standard library writes for it (`__init__`, `__eq__`, `__repr__`,
`__hash__`, its fields) when the first of these is asked for. Type checkers see the standard decorator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable
    from typing import Any, Final

    _USUAL: Final = {"frozen", "slots", "eq", "repr"}
    """Options that are understood here; with any other, the standard decorator does it all at once."""

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The standard decorator, or for classes with slots what comes to the same later."""
        if cls is None:
            return lambda decorated: dataclass(decorated, **options)
        if not options.get("slots") or not options.keys() <= _USUAL:
            return dataclasses.dataclass(**options)(cls)
        return _Unfinished(cls, options).made

    class _Unfinished:
        """A class with slots, and the one that it was made from, for the standard library to write the rest of."""

        def __init__(self, source: type, options: dict[str, bool]) -> None:
            self.source, self.options = source, options
            own = source.__dict__
            self.made = made = _with_slots(source)
            self.awaited = {"__dataclass_fields__", "__dataclass_params__", "__match_args__"} - own.keys()
            for name in self.awaited:
                setattr(made, name, _Awaited(self, name))
            is_compared, is_frozen = options.get("eq", True), options.get("frozen", False)
            is_hashed_by_itself = own.get("__hash__") is not None
            functions = {"__init__"} | ({"__repr__"} if options.get("repr", True) else set())
            functions = (functions | ({"__eq__"} if is_compared else set())) - own.keys()
            if is_compared and is_frozen and not is_hashed_by_itself:
                functions.add("__hash__")
            elif is_compared and not is_hashed_by_itself:
                made.__hash__ = None
            for name in functions:
                setattr(made, name, self._finishing(name))
            self.awaited |= functions
            if is_frozen:
                made.__setattr__, made.__delattr__ = _refuse_assigning, _refuse_deleting
                if "__getstate__" not in own:
                    made.__getstate__, made.__setstate__ = _state, _restore

        def finish(self) -> None:
            """Let the standard library write what is awaited, and take it over."""
            written = dataclasses.dataclass(**self.options)(self.source).__dict__
            for name in self.awaited:
                setattr(self.made, name, written[name])

        def _finishing(self, name: str) -> Callable[..., Any]:
            def first(instance: Any, /, *given: Any, **named: Any) -> Any:
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

    def _with_slots(source: type) -> type:
        """The class again, with a slot for each field that no base has one for."""
        fields = [
            name
            for name, said in source.__dict__.get("__annotations__", {}).items()
            if not said.startswith(("ClassVar", "typing.ClassVar"))
        ]
        inherited = {name for base in source.__mro__[1:-1] for name in base.__dict__.get("__slots__", ())}
        left_out = {*fields, "__dict__", "__weakref__"}
        content = {name: value for name, value in source.__dict__.items() if name not in left_out}
        content["__slots__"] = tuple(name for name in fields if name not in inherited)
        made = type(source)(source.__name__, source.__bases__, content)
        made.__qualname__ = source.__qualname__
        return made

    def _refuse_assigning(self: object, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _refuse_deleting(self: object, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, field.name) for field in dataclasses.fields(self)]

    def _restore(self: Any, state: list[Any]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, field.name, value)
