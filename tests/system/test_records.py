"""Our `dataclass` is the standard one: every class here is made by both, and they behave the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from gpuledger import records

Value = TypeVar("Value")
Decorator = Callable[..., Any]


def _classes(dataclass: Decorator) -> dict[str, Any]:
    """One of each kind that the package has; those of one decorator inherit from one another."""

    @dataclass(frozen=True, slots=True)
    class Point:
        """With defaults of both kinds."""

        x: int
        y: int = 2
        names: tuple[str, ...] = ()
        seen: list[int] = field(default_factory=list, compare=False, repr=False)
        unit: ClassVar[str] = "ns"

        @property
        def total(self) -> int:
            return self.x + self.y

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

    @dataclass(frozen=True, slots=True)
    class Named(Point):
        name: str = "p"

    @dataclass(frozen=True, slots=True, eq=False)
    class Single(Generic[Value]):
        value: Value

    @dataclass(slots=True)
    class Tally:
        count: int = 0

    @dataclass(frozen=True, slots=True, repr=False)
    class Quiet:
        text: str

        def __repr__(self) -> str:
            return "quiet"

    @dataclass(frozen=True, slots=True)
    class Own:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    @dataclass(frozen=True)
    class Loose:
        text: str

    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        rank: int

    class Derived(Point):
        __slots__ = ()

    return {name: value for name, value in locals().items() if isinstance(value, type)}


STANDARD, OURS = _classes(dataclasses.dataclass), _classes(records.dataclass)


def _counted(tally: Any) -> int:
    tally.count = 3
    return int(tally.count)


USES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "repr": lambda of: [repr(of["Point"](1)), repr(of["Named"](1, name="q")), repr(of["Quiet"]("a"))],
    "defaults": lambda of: (of["Point"](1).y, of["Point"](1).seen, of["Named"](1).name),
    "factories are called each time": lambda of: of["Point"](1).seen is of["Point"](1).seen,
    "equal": lambda of: (of["Point"](1) == of["Point"](1), of["Point"](1) == of["Point"](2)),
    "not compared": lambda of: of["Point"](1, seen=[1]) == of["Point"](1, seen=[2]),
    "other classes differ": lambda of: of["Point"](1) == of["Named"](1),
    "by identity": lambda of: of["Single"](1) == of["Single"](1),
    "hash": lambda of: hash(of["Point"](1, 2, ("a",))),
    "hash by itself": lambda of: {of["Own"]("a"), of["Own"]("A")} == {of["Own"]("a")},
    "no hash": lambda of: hash(of["Tally"]()),
    "missing": lambda of: of["Point"](),
    "unknown": lambda of: of["Point"](1, z=3),
    "after": lambda of: of["Point"](-1),
    "assign": lambda of: setattr(of["Point"](1), "x", 2),
    "assign what is no field": lambda of: setattr(of["Loose"]("a"), "b", 2),
    "delete": lambda of: delattr(of["Point"](1), "x"),
    "change": lambda of: _counted(of["Tally"]()),
    "replace": lambda of: repr(dataclasses.replace(of["Named"](1, 2), y=5, name="r")),
    "replace by ours": lambda of: repr(records.replace(of["Named"](1, 2), y=5, name="r")),
    "replace unknown": lambda of: records.replace(of["Point"](1), z=3),
    "loose": lambda of: (repr(of["Loose"]("a")), of["Loose"]("a") == of["Loose"]("a"), vars(of["Loose"]("a"))),
    "fields": lambda of: [(each.name, each.type, each.compare) for each in dataclasses.fields(of["Named"])],
    "field names": lambda of: [records.field_names(of[name]) for name in ("Named", "Loose", "Ordered")],
    "as dict": lambda of: dataclasses.asdict(of["Named"](1, names=("a", "b"))),
    "as tuple": lambda of: dataclasses.astuple(of["Point"](1)),
    "is one": lambda of: [dataclasses.is_dataclass(of[name]) for name in sorted(of)],
    "match": lambda of: (of["Point"].__match_args__, of["Named"].__match_args__),
    "slots": lambda of: (of["Point"].__slots__, of["Named"].__slots__, hasattr(of["Point"](1), "__dict__")),
    "copies": lambda of: repr(copy.deepcopy(of["Named"](1, seen=[4]))),
    "class variables": lambda of: (of["Point"].unit, of["Point"](3).unit),
    "properties": lambda of: of["Named"](3, 4).total,
    "derived": lambda of: repr(of["Derived"](1)),
    "order": lambda of: of["Ordered"](1) < of["Ordered"](2),
    "names": lambda of: (of["Point"].__qualname__, of["Point"].__doc__, of["Point"].__module__),
    "keeps its generic base": lambda of: str(of["Single"][int]).rpartition(".")[2],
}


@pytest.mark.parametrize("use", USES)
def test_a_class_behaves_as_the_standard_one_does(use: str) -> None:
    def outcome(classes: dict[str, Any]) -> Any:
        try:
            return USES[use](classes)
        except Exception as error:
            return type(error), str(error)

    assert outcome(OURS) == outcome(STANDARD)


@records.dataclass(frozen=True, slots=True)
class Sent:
    """At the top of a module, where pickle finds it."""

    name: str
    more: tuple[int, ...] = ()


def test_what_is_sent_to_another_process_arrives() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))  # noqa: S301


def test_a_class_is_finished_by_whatever_is_used_first() -> None:
    for first in ("fields", "match", "repr", "is one", "derived"):
        assert USES[first](_classes(records.dataclass)) == USES[first](STANDARD)
