"""Cases for a blind test of a secrets filter: format x name x quoting x program, seeded.

    cases(seed, count) -> list[Case]

Left out, because a careful security engineer could not tell either from the command alone:
- an unnamed, wordlike positional word of an unknown program (`./tool hunter2`), and `-p`, `-k`, `-t`, `-u` of unknown programs;
- bare hex or UUID without a name or program that makes it a key (40 hex may be a git commit; they are decoys here);
- `key=`, `--key v` with a wordlike value (sort key, dictionary key), and pass/pw/pin/otp/auth/sig/sas/pat with short numbers (`--pass 2`, `--pin 4`);
- a wordlike value under `token` (`--pad-token hunter2`); under token and key names the value always looks random;
- user names, account and key ids (AKIA..., client ids), certificate thumbprints, public keys, Sentry public keys: neither secret nor required to stay;
- references of a shell or of CI ($HF_TOKEN, ${{ secrets.X }}): neither; names of Kubernetes secrets stay only in plain `kubectl get/delete secret`;
- secrets that are encoded (a script in base64), joined from pieces ("abc" + "def"), reversed, or computed;
- the public head of a token (ghp_, sk-ant-api03-; judge.py counts a visible head as "label"), a bot's or account's number before the colon, `FlyV1 `;
- `pass` under names of compilers and loops (triton_pass, forward_pass); the head of a JWT is held to be secret, being easy to withhold with the rest;
- secrets under invented names with no known word in them (`--zork Xy...`), unless the token's own form tells (ghp_...);
- secrets of fewer than 5 characters, and values of true/false/none; licence keys; hostnames and e-mail addresses; prompts that mention passwords;
- a password as a shell-special text left unquoted in a script (it would not be that password for the shell);
- secrets in file contents, since only the command is recorded.
"""
from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from casegen.base import Case, Part, Rng, core, unique  # noqa: E402
from casegen.formats import FORMATS  # noqa: E402
from casegen.programs import TEMPLATES, fill  # noqa: E402
from casegen.scripts import SCRIPTS, decoy, decoy_neighbours, env_case  # noqa: E402
from casegen.spellings import SPELLINGS, with_spelling, with_text  # noqa: E402
from casegen.wrappers import ARGV_WRAPPERS, SHELLS, as_script, in_shell, wrapped  # noqa: E402

__all__ = ["Case", "cases", "one_case"]


def one_case(rng: Rng) -> Case:
    """One case of any kind."""
    draw = rng.random()
    if draw < 0.08:
        case = env_case(rng)
        return replace(case, secrets=[core(s) for s in case.secrets])
    if draw < 0.16:
        return decoy(rng) if rng.random() < 0.8 else decoy_neighbours(rng)
    if draw < 0.36:
        name = rng.choice(list(SPELLINGS))
        part, kind = with_spelling(name, rng), f"spelling/{name}"
    elif draw < 0.58:
        name = rng.choice(list(FORMATS))
        part, kind = with_text(name, rng), f"format/{name}"
    elif draw < 0.86:
        group = rng.choice(list(TEMPLATES)) if rng.random() < 0.4 else rng.choices(list(TEMPLATES), [len(t) for t in TEMPLATES.values()])[0]
        template = rng.choice(TEMPLATES[group])
        part, kind = fill(template, group, rng), f"program/{template.split()[0] if template.split()[0] != 'env' else 'env ' + template.split()[1].split('=')[0]}"
    else:
        name = rng.choice(list(SCRIPTS))
        text = SCRIPTS[name](rng)
        part, around = in_shell(text, rng)
        return nested(part, f"script/{name}", around, rng)
    return nested(part, kind, "", rng)


def nested(part: Part, kind: str, around: str, rng: Rng) -> Case:
    """The command as it is, or inside up to three others."""
    layers = [around] if around else []
    for chance in (0.45, 0.3, 0.2):
        if rng.random() > chance:
            break
        if rng.random() < 0.5:
            part, name = wrapped(part, rng)
        else:
            part, name = in_shell(as_script(part, rng), rng)
        layers.append(name)
    return Case(part.words, unique([core(s) for s in part.secrets]), unique(part.harmless), kind + f"/{part.kind}" + (f" in {'<'.join(layers)}" if layers else ""))


def cases(seed: int | None, count: int) -> list[Case]:
    """`count` cases; the same ones for the same seed, others every time for none."""
    rng = random.Random(seed)
    return [one_case(rng) for _ in range(count)]


def check(case: Case) -> None:
    """Every secret and harmless text stands in the case as it is spelt there."""
    texts = [*case.argv, *case.env.values()]
    for s in case.secrets:
        assert len(s) >= 5 and any(s in t for t in texts), (s, case)
    for h in case.harmless:
        assert h == "" or any(h in t for t in texts), (h, case)


if __name__ == "__main__":
    for c in cases(int(sys.argv[1]) if len(sys.argv) > 1 else None, 12):
        check(c)
        print(c, end="\n\n")
