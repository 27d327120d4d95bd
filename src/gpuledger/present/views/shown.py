"""Results that know how they are shown: as text, Markdown, a page, JSON, and in a notebook."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuledger.present.document import Document


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

        return fragment_html(self.document().blocks())
