"""What to change first, in one line: words that hold for every program, and a framework's own where they say it better.

Nothing here names another framework's API: `tests/findings/test_advice.py` looks at all of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gpuledger.catalog.frameworks import BASE, Framework
from gpuledger.findings.finding import Finding
from gpuledger.messages import Message


class FixWords(Message):
    """Words for all that know better ones for some."""

    special: Mapping[Framework, Message] = {}

    @classmethod
    def of(cls, general: Message, **special: Message) -> FixWords:
        """`special` by the names of frameworks, in lower case."""
        words = cls(str(general), general.template, general.parts)
        words.special = {Framework[name.upper()]: fix for name, fix in special.items()}
        return words

    def words(self, framework: Framework) -> Message:
        """A framework's own, else those of what it is built on, else those that hold for all."""
        for speaker in (framework, BASE.get(framework, Framework.ANY)):
            if speaker in self.special:
                return self.special[speaker]
        return Message(str(self), self.template, self.parts)


def in_words_of(framework: Framework, finding: Finding) -> Finding:
    """The finding with the fix, also where it stands as evidence, as users of the framework write it."""
    general = finding.fix
    if not isinstance(general, FixWords):
        return finding
    fix = general.words(framework)
    evidence = tuple(replace(piece, sentence=fix) if piece.sentence is general else piece for piece in finding.evidence)
    return replace(finding, fix=fix, evidence=evidence)
