"""What to say behind a word that is not known: the word that was meant, else all there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggestion(word: str, known: Iterable[str]) -> str:
    """The second half of a sentence such as `unknown key 'step'; did you mean 'steps'?`."""
    words = list(dict.fromkeys(known))
    close = get_close_matches(word, words, n=1)
    if close:
        return f"did you mean '{close[0]}'?"
    return f"there are: {', '.join(words)}" if words else "there are none"
