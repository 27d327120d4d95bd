"""`gpuledger help WORDS`: which command answers a question.

`questions.txt` has a question and its command on each line: the table "Which question, which command" of the
documentation, which a test keeps the same. Their Chinese is in the catalogue with that of all sentences.
"""

from __future__ import annotations

from importlib.resources import files
from shutil import get_terminal_size
from typing import Any, Final, Unpack

import click

from gpuledger.cli.main import verb_named
from gpuledger.messages import catalogue
from gpuledger.regex import regex
from gpuledger.verbs import VERBS
from gpuledger.verbs.definition import Profile, ProfileOptions

_MOST = 6
_MOST_MEANT = 3
_WORD = regex(r"[a-z][a-z0-9/]+")
_SAYS_NOTHING = regex(
    "an?|about|and|are|at|can|did|do|does|for|from|gpu|has|have|how|i|in|is|its?|me|my|of|on|or|so|that|the|them|there|"
    "they|this|to|was|what|when|where|which|who|why|with|your?"
)
_CHINESE = regex(r"[\u4e00-\u9fff]+")
_SAYS_NOTHING_IN_CHINESE = regex(
    "为什么|怎么样?|怎样|如何|什么|哪[些个里]|多[少久大]|[的了吗呢吧是在有我能可把被请和与或会要这那]"
)


def asked_questions() -> list[tuple[str, str]]:
    """Every question, and the command that answers it."""
    lines = files("gpuledger.cli").joinpath("questions.txt").read_text(encoding="utf-8").splitlines()
    return [(question, command) for question, _, command in (line.partition("\t") for line in lines)]


def asked_in_chinese() -> list[tuple[str, str]]:
    """The same in Chinese, as far as they are translated."""
    chinese = catalogue("zh")
    return [(chinese.get(question, question), command) for question, command in asked_questions()]


def matching(words: str) -> list[tuple[str, str]]:
    """The questions with the most of these words in them, the best first; a word matches what begins like it.

    Chinese has no spaces: there each two characters that stand together are a word.
    """
    chinese = _chinese_words(words)
    wanted = [word for word in _WORD.findall(words.lower()) if not _SAYS_NOTHING.fullmatch(word)]
    of_verbs = [(verb.help, f"gpuledger {name}") for name, verb in VERBS.items()]
    known = asked_in_chinese() if chinese else asked_questions() + of_verbs

    def score(question: str, command: str) -> int:
        options = [part for part in command.split() if "." not in part]  # run.sqlite is a name, and no SQL
        there = _WORD.findall(" ".join([question, *options]).lower())
        hits = sum(any(_alike(word, other) for other in there) for word in wanted)
        return hits + sum(word in question for word in chinese)

    scored = [(score(*pair), -place, pair) for place, pair in enumerate(known)]
    most = max((hits for hits, *_ in scored), default=0)
    best = [pair for hits, _, pair in sorted(scored, reverse=True) if hits == most and hits]
    of_verb = {command.split()[1]: (question, command) for question, command in reversed(best)}
    return [pair for pair in best if pair in of_verb.values() or len(pair[1].split()) > 2][:_MOST]


def meant_by(word: str) -> str:
    """What somebody may have meant who typed a word that is no verb: one misspelled, or one that answers about it."""
    import difflib

    spelled = difflib.get_close_matches(word, VERBS, n=1, cutoff=0.75)
    answering = [command.split()[1] for _, command in matching(word) if command.startswith("gpuledger ")]
    if answering and not spelled:
        near = " or ".join(list(dict.fromkeys(answering))[:_MOST_MEANT])
        return f"Did you mean {near}? `gpuledger help {word}` says which question each answers."
    near = "".join(spelled or difflib.get_close_matches(word, VERBS, n=1))
    return f"Did you mean {near}?" if near else f"There are: {', '.join(VERBS)}."


def _chinese_words(text: str) -> list[str]:
    runs = _CHINESE.findall(_SAYS_NOTHING_IN_CHINESE.sub(" ", text))
    return [run[at : at + 2] for run in runs for at in range(max(len(run) - 1, 1))]


def _alike(word: str, other: str) -> bool:
    """Whether one is the other with an ending: kernel and kernels, copies and copied, flame and flamegraph."""
    shared = min(len(word), len(other))
    if shared > 4 and (word.startswith(other) or other.startswith(word)):
        return True
    alike = max(shared - 1, min(shared, 4))
    return word[:alike] == other[:alike] and abs(len(word) - len(other)) <= 3


OPTIONS: Final = "options"


def shared_options(parent: click.Context) -> str:
    """The options that many verbs have, with those that their help only names."""
    from gpuledger.cli.commands import command_of

    command = command_of(_many_verbs, OPTIONS)
    with click.Context(command, info_name=OPTIONS, parent=parent) as asked:
        formatter = asked.make_formatter()
        command.format_help_text(asked, formatter)
        command.format_options(asked, formatter)
        return formatter.getvalue().rstrip()


def _many_verbs(profile: Profile, **asked: Unpack[ProfileOptions]) -> Any:
    """These options most verbs about a PROFILE have: which part of it, how it is read, where the answer goes."""


@click.command("help")
@click.argument("words", nargs=-1, metavar="[QUESTION | VERB | options]...")
@click.pass_context
def help_(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Find the command that answers a question, e.g. `gpuledger help why is the gpu idle`; or show a verb's help."""
    parent = ctx.parent or ctx
    if not words:
        click.echo(parent.get_help())
        return
    if words == (OPTIONS,):
        click.echo(shared_options(parent))
        return
    if len(words) == 1 and words[0] in VERBS:
        command = verb_named(words[0])
        with click.Context(command, info_name=words[0], parent=parent) as asked:
            click.echo(command.get_help(asked))
        return
    found = matching(" ".join(words))
    if not found:
        raise click.UsageError(
            f"no question with these words; `gpuledger help` lists the {len(VERBS)} verbs by question."
        )
    from gpuledger.present.safe_text import wrapped

    for question, command_line in found:
        click.echo(f"{wrapped(question, get_terminal_size().columns)}\n  {command_line}")
