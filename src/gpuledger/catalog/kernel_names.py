"""What a kernel is called: its parts, and a canonical form that profilers agree on. Its family is in `kernel_families`.

Profilers print one kernel in different ways: nsys writes `(int)128` where torch writes `128`, one gives the return
type and the parameters, the other does not. The canonical form leaves out what differs and keeps what tells kernels
apart. Also how alike two kernels are by name, what is left of names, of ranges too, without running numbers, and which
function and line a compiler made a kernel of.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from gpuledger.catalog.kernel_families import CARRIERS, OTHER, family
from gpuledger.regex import LOOKED_AT, regex


def name_matcher(pattern: str, flags: int = re.IGNORECASE, words: tuple[str, ...] = ("",)) -> Callable[[str], bool]:
    """Whether a name has the pattern in it, as a function of the name.

    Every name that has it holds one of `words`, which are in lower case: most names need no more than a look at them.
    """

    expression = regex(pattern, flags)

    def matches(name: str) -> bool:
        name = name[:LOOKED_AT]
        lowered = name.lower()
        return any(word in lowered for word in words) and expression.search(name) is not None

    return matches


_FORMS: Final = (
    ("OpenMP", regex(r"nvkernel_(?P<function>\w+?)_F\d+L(?P<line>\d+)(?:_\d+)?_?")),
    ("OpenMP", regex(r"__omp_offloading_[0-9a-f]+_[0-9a-f]+_(?P<function>[\w.$]+)_l(?P<line>\d+)(?:_\w+)?(?:\.kd)?")),
    ("OpenACC", regex(r"(?P<function>\w+?)_(?P<line>\d+)_gpu(?P<rest>__red)?")),
)
_MANGLED: Final = regex(r"_Z(N?)(K?)(?=\d)")
_LENGTH: Final = regex(r"\d{1,4}")
_LONGEST: Final = 2000
"""No function of a library has a longer name; the pattern of tiles takes time by the square of one."""


def source_label(short: str) -> str | None:
    """`jacobi:45 (OpenACC)` for `jacobi_45_gpu`; None for a name of another form."""
    for model, form in _FORMS if len(short) <= _LONGEST else ():
        if match := form.fullmatch(short):
            rest = " sum" if match.groupdict().get("rest") else ""
            return f"{_demangle(match['function'])}:{match['line']} ({model}{rest})"
    return None


def _demangle(function: str) -> str:
    """A C++ function's name without its parameters, if it has no templates; any other as it is."""
    parts, rest, nested = _read_mangled(function)
    return "::".join(parts) if parts and (not nested or rest.startswith("E")) else function


def _read_mangled(name: str) -> tuple[list[str], str, bool]:
    """The names that a mangled one begins with, what follows, and whether they are nested; none of any other name."""
    match = _MANGLED.match(name)
    parts, position = list[str](), match.end() if match else 0
    while match and (length := _LENGTH.match(name, position)) and (match[1] or not parts):
        if (position := length.end() + int(length[0])) > len(name):
            return [], name, False
        parts.append(name[length.end() : position])
    return parts, name[position:], bool(match and match[1])


# A run of letters or spaces is looked at once, from its beginning: a name of any length takes time by its length.
_PAIRS: Final = {")": "(", ">": "<", "]": "[", "}": "{"}
_BRACKET, _PARTING, _ROUND = (
    regex(r"(?<!-)(?<!operator)[<>]|[()\[\]{}]"),  # the one of `->`, `operator<` and the like is none
    regex(r"(?<!-)(?<!operator)[<>]|[()\[\]{},]"),
    regex(r"([()])"),
)
_TRUE, _FALSE = regex(r"\(bool\)1\b"), regex(r"\(bool\)0\b")
_ANONYMOUS: Final = regex(r"<unnamed>|\(anonymous namespace\)|\{anonymous\}|\(anonymous\)")
_INSTANCE: Final = regex(r"(?:(?<!\s)\s+)?\(instance (\d+)\)")
_LAMBDA: Final = regex(r"[\[{]lambda#(\d+)[\]}]")
_CONST: Final = regex(r"(?:(?<!\s)\s+)?\bconst\b\s*")
_RETURN_TYPE: Final = regex(r"(?:^|(?<=[<,]))(?:void|bool) (?=\w)")
_SUFFIX: Final = regex(r"(?<=\d)(?:ull|ul|ll|u|l)\b", re.IGNORECASE)
_NAMESPACE: Final = regex(r"(?:(?<!\w)\w+|\(anonymous\)|anonymous)::")
_ABI_TAG: Final = regex(r"\[abi:[^\[\]]*\]")
_TRUTH: Final = regex(r"\b(?:true|false)\b")
_SPACES: Final = regex(r"(?:(?<!\s)\s+)?([<>,*&\[\]{}:])\s*")


class KernelName(Struct, frozen=True):
    """A demangled name, taken apart."""

    short: str
    """The function's bare name: no namespace, template arguments or parameters."""
    qualified: str
    """With its namespaces."""
    template: tuple[str, ...]
    """The template arguments, each in canonical form."""

    @property
    def canonical(self) -> str:
        """One spelling for all profilers: the qualified name with its template arguments."""
        return f"{self.qualified}<{', '.join(self.template)}>" if self.template else self.qualified

    @property
    def bare(self) -> str:
        """Looser than canonical: without namespaces, truth values as numbers.

        What `ncu --csv` prints leaves out some namespaces and writes 1 for true.
        """
        return _TRUTH.sub(lambda word: str(int(word[0] == "true")), _NAMESPACE.sub("", self.canonical))


@lru_cache(maxsize=65536)
def parse(name: str) -> KernelName:
    """Take a demangled name apart. A name that is no C++ at all is its own short name, and so is one without end.

    Of a mangled one, as profilers on Windows write them, all behind the function's name counts as a template argument.
    """
    if len(name) > LOOKED_AT:
        return KernelName(name, name, ())
    if (mangled := _read_mangled(name))[0]:
        parts = ["(anonymous)" if part.startswith("_GLOBAL__N_") else part for part in mangled[0]]
        return KernelName(parts[-1], "::".join(parts), tuple(filter(None, mangled[1:2])))
    text = _ANONYMOUS.sub("(anonymous)", name.strip())
    text = _without_parameters(text)
    text = text[_last_outside(text, " ") + 1 :]  # what stands before is the return type
    head, template = _split_template(text)
    short = head[_last_outside(head, "::") + 1 :].lstrip(":")
    return KernelName(short or head, head, tuple(_canonical(argument) for argument in template))


def _without_parameters(text: str) -> str:
    """Cut a parameter list at the end, but neither a `(anonymous)` nor an `operator()`."""
    if not text.endswith(")"):
        return text
    opening = _opening(text, len(text) - 1)
    if opening <= 0 or text[opening:] == "(anonymous)" or text[:opening].endswith("operator"):
        return text
    return text[:opening].rstrip()


def _brackets(text: str, end: int | None = None) -> list[tuple[int, str]]:
    """Where brackets stand before `end`, and which."""
    brackets = _BRACKET.finditer(text) if end is None else _BRACKET.finditer(text, 0, end)
    return [(bracket.start(), bracket.group()) for bracket in brackets]


def _opening(text: str, closing: int) -> int:
    """Where the bracket that `closing` closes was opened; -1 if it never was."""
    wanted: list[str] = []
    for position, letter in reversed(_brackets(text, closing + 1)):
        if letter in _PAIRS:
            wanted.append(_PAIRS[letter])
        elif wanted and letter == wanted[-1]:
            wanted.pop()
            if not wanted:
                return position
    return -1


def _last_outside(text: str, what: str) -> int:
    """The last place of `what` that lies outside all brackets; -1 if there is none, or one is never opened."""
    end, wanted = len(text), list[str]()
    for position, letter in reversed(_brackets(text)):
        if letter in _PAIRS:
            if not wanted and (last := text.rfind(what, position + 1, end)) >= 0:
                return last
            wanted.append(_PAIRS[letter])
        elif wanted and letter == wanted[-1]:
            wanted.pop()
            end = end if wanted else position
    return -1 if wanted else text.rfind(what, 0, end)


def _split_template(text: str) -> tuple[str, list[str]]:
    """A name and its template arguments, split at the commas outside brackets."""
    if not text.endswith(">"):
        return text, []
    opening = _opening(text, len(text) - 1)
    if opening <= 0:
        return text, []
    arguments, depth, start = [], 0, opening + 1
    for parting in _PARTING.finditer(text, opening + 1, len(text) - 1):
        letter = parting.group()
        if letter == ",":
            if depth == 0:
                arguments.append(text[start : parting.start()])
                start = parting.end()
        else:
            depth += -1 if letter in _PAIRS else 1
    arguments.append(text[start:-1])
    return text[:opening], arguments


@lru_cache(maxsize=65536)
def _canonical(argument: str) -> str:
    """One template argument without casts, number suffixes, return types, parameters, `const` and stray spaces.

    A lambda is `[lambda(T1) (instance 2)]` to one profiler and `{lambda(float)#2}` to another; here it is `{lambda#2}`.
    """
    text = _FALSE.sub("false", _TRUE.sub("true", argument))
    text = _ANONYMOUS.sub("anonymous", _INSTANCE.sub(r"#\1", text))
    text = _LAMBDA.sub(r"{lambda#\1}", _CONST.sub(" ", _without_parentheses(text)))
    return _SUFFIX.sub("", _RETURN_TYPE.sub("", _SPACES.sub(r"\1", text.strip())))


def _without_parentheses(text: str) -> str:
    """The text outside all round brackets; brackets that do not match stand for nothing."""
    kept, depth = [], 0
    for part in _ROUND.split(text):
        if part == "(":
            depth += 1
        elif part == ")":
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(part)
    return "".join(kept)


_NUMBERED: Final = regex(r"kernel_?\d{1,6}")
_WORD: Final = regex(r"[A-Za-z_]\w{3,}")
_SAYS_NOTHING: Final = regex(
    r"at|native|c10|std|cuda|detail|templates|anonymous|lambda|operator|array|char|float|double|unsigned|long|short|bool|void"
    r"|true|false|int\w*|uint\w*|BFloat16|Half|half|bfloat16_t|half_t|\w*gpu_kernel\w*|\w*gpu_index_kernel|cutlass|cute|tuple"
    r"|C|type|const|binary_internal|OpaqueType|OffsetCalculator|TrivialOffsetCalculator|memory|LoadWithoutCast"
    r"|StoreWithoutCast|LoadWithCast|StoreWithCast|CUDAGeneratorImpl|__nv_bfloat16|NullType|__half|TensorIteratorBase|ReduceOp|func_wrapper_t|BinaryFunctor|BUnaryFunctor|AUnaryFunctor"
)

_KOKKOS_FUNCTOR: Final = regex(
    r"Parallel(?:For|Reduce|Scan\w*)<(?:Kokkos::Impl::CombinedFunctorReducer<)?"
    r"(?:\w+::|\(anonymous namespace\)::)*(\w+)"
)


@lru_cache(maxsize=65536)
def label(name: str) -> str:
    """A short name for people: the bare name, and of the template arguments the last word that says what it does.

    `void at::native::elementwise_kernel<(int)128, ... silu_kernel ...>(int, T3)` -> `elementwise_kernel…silu_kernel`.
    What a compiler made of a loop has the name of its source; a mere `kernel7` keeps its namespaces. All kernels of
    Kokkos are its own launchers: they have the name of what is launched, a functor or the function of a lambda. The
    tag of an ABI, in which Numba writes its options, is no name.
    """
    parts = parse(name[:LOOKED_AT])
    if (source := source_label(parts.short)) is not None:
        return source
    if _NUMBERED.fullmatch(parts.short):
        return parts.qualified
    if "_parallel_launch_" in parts.short and (functor := _KOKKOS_FUNCTOR.search(name)) is not None:
        return functor[1]
    words = [
        word for argument in parts.template for word in _WORD.findall(argument) if not _SAYS_NOTHING.fullmatch(word)
    ]
    short = _ABI_TAG.sub("", parts.short)
    return f"{short}…{words[-1]}" if words else short


def cut_label(text: str, letters: int = 48) -> str:
    """A label for a sentence: cut in the middle where it has more letters; one that is cut already, at that place."""
    if len(text) <= letters:
        return text
    last = len(text.rpartition("…")[2])
    end = last if 0 < last <= letters // 2 else letters * 2 // 5
    return f"{text[: letters - end - 1].rstrip('…')}…{text[-end:].lstrip('…')}"


EXACT, FUNCTION, FAMILY, NONE = LEVELS = ("exact", "function", "family", "none")

_TILE: Final = regex(
    r"(?<=[_x])\d+(?:x\d+)+(?=_|$)|(?<=tile)\d+(?:x\d+)*|(?<=stage)s?\d+|_(?:splitK|streamK|stages?_\d+)(?=_|$)"
)
_CARRIER: Final = regex("|".join(CARRIERS), re.IGNORECASE)
_OP_ID: Final = regex(r",?(?:(?<!\s)\s+)?(?:op_id|seq|seq_id|sequence|corr_id|id)\s*[=:]\s*\d+", re.IGNORECASE)
_VALUE: Final = regex(r"[=:]\s*\d")  # what every such id has, and few names
_EMITTED: Final = regex(
    r"(?:, (?:seq|op_id) = -?\d+)*(?:, sizes = (?P<sizes>\[[\[\], \d]*\]))?(?:, input_op_ids = [\[\](), \d-]*)?$"
)
_EMITTED_BEGINS: Final = regex(r"(?<!^), (?:seq|op_id|sizes) = ")
_RUNNING: Final = regex(r"(?<=_)\d+(?=_|$)")
_NUMBER: Final = regex(r"\b[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}\b|\b(?=(?:[a-z]*\d+[a-z]+){5})[a-z\d]{20,}\b|\d+")
"""A number; an id or a hash as a whole: with its digits left out it would be nobody's name."""
_HASH: Final = regex(r"(?<=_)[0-9a-f]{8,}(?=_|$)")
_GENERATED: Final = regex(
    r"^(?:triton|fused|wrapped|jit|loop|input|copy|broadcast|reduce|transpose|convert)", re.IGNORECASE
)


def without_tile(name: str) -> str:
    """The function's bare name without its tile, so that a library's variants of one kernel are equal.

    `nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT` -> `nvjet_sm90_tst____v_bz_TNT`, `triton_poi_fused_add_12` ->
    `triton_poi_fused_add_`: compilers number what they generate.
    """
    short = parse(name).short
    if len(short) > _LONGEST:
        return short
    if _GENERATED.match(short):
        return _RUNNING.sub("", _HASH.sub("", short))
    return _HASH.sub("", _TILE.sub("", short))


def carries(name: str) -> bool:
    """Whether the function does what its template arguments name."""
    return bool(_CARRIER.fullmatch(parse(name).short))


def without_numbers(range_name: str) -> str:
    """A range's name with # for numbers and hashes, so that like ranges are equal: `layer12.mlp` -> `layer#.mlp`."""
    return _NUMBER.sub("#", range_name)


def without_ids(range_name: str) -> str:
    """A range's name without ids that differ in every run: `aten::mm, seq = 7, op_id = 31` -> `aten::mm`."""
    emitted = emitted_operator(range_name)
    if emitted is not None:
        return emitted[0]
    bare = _OP_ID.sub("", range_name) if _VALUE.search(range_name) else range_name
    return range_name if bare == range_name else bare.strip()


def emitted_operator(range_name: str) -> tuple[str, str] | None:
    """An operator's name and its inputs' sizes as PyTorch's emit_nvtx writes them; '' without, None: another range.

    `aten::mm, seq = 7, op_id = 31, sizes = [[2, 3], [3, 4]], input_op_ids = [(29,0)]` -> `aten::mm`,
    `[[2, 3], [3, 4]]`.
    """
    begins = _EMITTED_BEGINS.search(range_name)
    match = None if begins is None else _EMITTED.match(range_name, begins.start())
    return None if match is None else (range_name[: match.start()], match["sizes"] or "")


@lru_cache(maxsize=65536)
def likeness(first: str, second: str) -> str:
    """One of LEVELS.

    A function that does what its template arguments name, as `elementwise_kernel<... silu_kernel ...>`, is the same
    one only if they name the same.
    """
    ours, theirs = parse(first), parse(second)
    if ours.bare == theirs.bare:
        return EXACT
    if ours.short == theirs.short and carries(first):
        alike = label(first) == label(second)
    else:
        alike = ours.short == theirs.short or without_tile(first) == without_tile(second)
    if alike:
        return FUNCTION
    return FAMILY if family(first) == family(second) != OTHER else NONE
