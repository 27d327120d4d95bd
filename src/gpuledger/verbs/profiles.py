"""What all verbs share: the profiles that they are asked about, and the ways to show their results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gpuledger.limits import DEFAULT_LIMITS, Limits
from gpuledger.read import open_trace
from gpuledger.records import dataclass
from gpuledger.stages import NOBODY, Listener
from gpuledger.trace.model import Trace
from gpuledger.trace.tables import EVENTS, Table

if TYPE_CHECKING:
    from gpuledger.present.document import Document

Profile = Trace | str | Path  # a profile: where it is, or what was read of it


@dataclass(frozen=True, slots=True)
class ProfileReading:
    """How profiles are read: what that may cost, who is told of it, and what names the work inside CUDA graphs."""

    limits: Limits = DEFAULT_LIMITS
    progress: Listener = NOBODY
    names_from: Path | None = None

    def trace(
        self,
        profile: Profile,
        only: Collection[Table] | Mapping[Table, Collection[str]] = EVENTS,
        where_sampled: Mapping[Table, Collection[str]] | None = None,
    ) -> Trace:
        if isinstance(profile, Trace):
            return profile
        trace = open_trace(
            profile, only=only, where_sampled=where_sampled or {}, limits=self.limits, progress=self.progress
        )
        return trace if self.names_from is None else self._named(trace, Path(profile).name, self.names_from)

    def _named(self, trace: Trace, profile: str, names_from: Path) -> Trace:
        from gpuledger.analyse.operators.graph_places import named_by_nodes, named_by_trace
        from gpuledger.read.torch.reader import is_kernel_annotations, kernel_annotations

        if is_kernel_annotations(names_from):
            return named_by_nodes(trace, profile, kernel_annotations(names_from, self.limits), names_from.name)
        other = open_trace(names_from, limits=self.limits, progress=self.progress)
        return named_by_trace(trace, profile, other, names_from.name)


def profile_name(profile: Profile, otherwise: str = "profile") -> str:
    """What to call a profile: the name of its file."""
    return otherwise if isinstance(profile, Trace) else Path(profile).name


Result = TypeVar("Result")


class ShownResult:
    """A result that knows how it is shown."""

    __slots__ = ()

    @abstractmethod
    def document(self) -> Document:
        """What is shown, for any writer."""

    @property
    def headline(self) -> str:
        """The answer, in a sentence."""
        from gpuledger.present.document import Conclusion, Paragraph

        document = self.document()
        sentences = [block.text for block in document.blocks() if isinstance(block, Conclusion | Paragraph)]
        return sentences[0] if sentences else ", ".join(sheet.title for sheet in document.sheets())

    def to_dict(self) -> dict[str, Any]:
        """The versioned document that `--format=json` writes."""
        return self.document().json()

    def to_text(self, *, width: int | None = None, language: str = "en") -> str:
        """What the command prints."""
        return self._write("text", width=width, language=language)

    def to_markdown(self, *, language: str = "en") -> str:
        """The same as Markdown."""
        return self._write("md", language=language)

    def to_html(self, *, language: str = "en") -> str:
        """The page, one HTML file."""
        return self._write("html", language=language)

    def _write(self, form: str, *, width: int | None = None, language: str) -> str:
        from gpuledger.present.writers import write

        return write(self.document(), form, width=width, language=language)

    def __repr__(self) -> str:
        from gpuledger.present.safe_text import visible

        return f"<{type(self).__name__}: {visible(self.headline)}>"

    def _repr_html_(self) -> str:
        from gpuledger.present.writers.html.notebook import fragment_html

        return fragment_html(self.document())


@dataclass(frozen=True, slots=True, repr=False)
class ShownAnswer(ShownResult, Generic[Result]):
    """What a verb found, as its analyses gave it, and the ways to show that."""

    results: tuple[Result, ...]  # one for each GPU, or for what else was asked about
    shown_as: Callable[[], Document] = field(compare=False)

    def document(self) -> Document:
        return self.shown_as()
