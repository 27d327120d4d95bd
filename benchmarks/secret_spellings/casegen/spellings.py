"""How a name and a secret stand in the words of a command: options, overrides, assignments, and whole texts as arguments."""
from __future__ import annotations

import re
from collections.abc import Callable

from casegen.base import Part, Rng, Secret, Text
from casegen.formats import FORMATS, clean
from casegen.names import SET_NEIGHBOURS, named, neighbours
from casegen.secrets_made import ALNUM, opaque, password, rand, vendor

Spelling = Callable[[Rng], Part]
SPELLINGS: dict[str, Spelling] = {}


def spelling(name: str) -> Callable[[Spelling], Spelling]:
    def add(f: Spelling) -> Spelling:
        SPELLINGS[name] = f
        return f

    return add


def loose(rng: Rng, styles: list[str]) -> tuple[str, Secret, str]:
    """Any value, but none that would read as an option or lose itself at the edges."""
    while True:
        name, secret, kind = named(rng, styles, blanks=True, hard=True)
        if not secret.text.startswith("-"):
            return name, secret, kind


OPTION = ["snake", "kebab", "camel", "dotted", "flat"]


@spelling("--x=v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, [*OPTION, "scream"])
    return Part([f"--{n}={s.text}"], [s.text], [], k)


@spelling("--x v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, [*OPTION, "scream"])
    return Part([f"--{n}", s.text], [s.text], [], k)


@spelling("-x v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, ["snake", "kebab", "camel"])
    return Part([f"-{n}", s.text], [s.text], [], k)


@spelling("-x=v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, ["snake", "kebab", "camel"])
    return Part([f"-{n}={s.text}"], [s.text], [], k)


@spelling("--x:v")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["kebab", "camel"])
    return Part([f"{rng.choice(['--', '/', '-'])}{n}:{s.text}"], [s.text], [], k)


@spelling("-Dx=v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, ["dotted", "camel", "kebab"])
    pre = rng.choice(["-Djavax.net.ssl.", "-D", "-Dspring.", "-P", "-Dsonar."])
    return Part([f"{pre}{n}={s.text}"], [s.text], [], k)


@spelling("x=v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, ["snake", "dotted", "scream", "camel"])
    return Part([rng.choice(SET_NEIGHBOURS), f"{n}={s.text}"], [s.text], [], k)


@spelling("hydra")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["snake", "camel"])
    near = rng.choice(SET_NEIGHBOURS)
    q = rng.choice(["", "", "'", '"'])
    words = [f"{rng.choice(['++', '+', ''])}{rng.choice(['logger.wandb', 'trainer.hub', 'a.b', 'cfg.store.0', 'env_vars'])}.{n}={q}{s.text}{q}", near]
    rng.shuffle(words)
    return Part(words, [s.text], [near], k)


@spelling("hydra-dict")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["snake", "camel"])
    word = rng.choice(["+logger={{name:run4127,{n}:{v}}}", "++auth={{user: bob4127, {n}: {v}}}", "+env={{'N4127': 1, '{n}': '{v}'}}"]).format(n=n, v=s.text)
    return Part([word], [s.text], [h for h in ("run4127", "bob4127", "N4127") if h in word], k)


@spelling("option-takes-x=v")
def _(rng: Rng) -> Part:
    n, s, k = loose(rng, ["snake", "dotted", "scream", "camel"])
    o = rng.choice(["--set", "--set-string", "--env", "-e", "--build-arg", "--define", "--config", "-o", "--override", "--opt", "-c", "--extra-vars", "--var", "-var", "-v", "--param", "--property", "-D", "--conf", "--secret", "--label"])
    word = f"{n}={s.text}"
    return Part([f"{o}={word}"] if o.startswith("--") and rng.random() < 0.4 else [o, word], [s.text], [], k)


@spelling("yacs")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["scream", "snake"])
    return Part(["MODEL.DEPTH", "4127", f"LOGGER.{n.upper()}", s.text, "SOLVER.STEPS", "9081"], [s.text], ["4127", "9081", "MODEL.DEPTH"], k)


@spelling("comma-pairs")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["snake", "camel"])
    while "," in s.text or "=" in s.text:
        n, s, k = clean(rng, ["snake", "camel"])
    items = ["pretrained=meta-llama/Llama-2-7b-hf", "dtype=float16", f"{n}={s.text}"]
    rng.shuffle(items)
    o = rng.choice(["--model_args", "--opts", "-o", "--config-overrides", "--storage-options"])
    word = ",".join(items)
    return Part([f"{o}={word}"] if o.startswith("--") and rng.random() < 0.4 else [o, word], [s.text], ["meta-llama/Llama-2-7b-hf", "float16"], k)


@spelling("blank-pairs")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["snake", "scream"])
    q = rng.choice(["", "'", '"'])
    return Part([rng.choice(["-e", "--extra-vars", "--args", "--env", "--extra-args"]), f"nodes=4127 {n}={q}{s.text}{q} region=eu-west-1"], [s.text], ["nodes=4127", "region=eu-west-1"], k)


@spelling("options-in-one-word")
def _(rng: Rng) -> Part:
    n, s, k = clean(rng, ["kebab", "snake"])
    q = rng.choice(["", "'", '"'])
    return Part([rng.choice(["--args", "--entrypoint-args", "--cmd", "--extra-args", "--opts"]), f"--steps 4127 --{n}{rng.choice([' ', '='])}{q}{s.text}{q} --model gpt2-xl"], [s.text], ["--steps 4127", "--model gpt2-xl"], k)


@spelling("plural-list")
def _(rng: Rng) -> Part:
    a, b = Secret(rand(rng, 24), "alnum"), Secret(rand(rng, 32), "alnum")
    n = rng.choice(["api-keys", "passwords", "auth-tokens", "api_keys", "access-tokens", "secrets", "apiKeys"])
    words = rng.choice([[f"--{n}={a.text},{b.text}"], [f"--{n}", f"{a.text},{b.text}"], [f"--{n}", f"[{a.text}, {b.text}]"], [f"{n}=[{a.text},{b.text}]"], [f"--{n}", f'["{a.text}","{b.text}"]'], [f"--{n}={a.text}:{b.text}"], [f"--{n}={a.text};{b.text}"]])
    return Part(words, [a.text, b.text], [], n)


@spelling("plural-words")
def _(rng: Rng) -> Part:
    a, b = Secret(rand(rng, 24), "alnum"), Secret(rand(rng, 32), "alnum")
    n = rng.choice(["--api-keys", "--passwords", "--auth-tokens", "--api_keys"])
    return Part([n, a.text, b.text, "--steps", "4127"], [a.text, b.text], ["--steps", "4127"], n)


@spelling("repeated")
def _(rng: Rng) -> Part:
    a, b = opaque(rng), opaque(rng)
    while a.text[0] == "-" or b.text[0] == "-":
        a, b = opaque(rng), opaque(rng)
    return Part(["--api-key", a.text, "--api-key", b.text], [a.text, b.text], [], "twice")


@spelling("user:password")
def _(rng: Rng) -> Part:
    s = password(rng)
    return Part([rng.choice(["--user", "--auth", "--basic-auth", "--proxy-user", "--credentials", "--creds", "--login"]), f"alice:{s.text}"], [s.text], [], s.source)


@spelling("secret-twice")
def _(rng: Rng) -> Part:
    """A secret named once, and standing a second time where nothing names it."""
    s = Secret(rand(rng, 30, ALNUM), "alnum")
    return Part(["--api-key", s.text, "--note", f"run-with-{s.text}"], [s.text], [], "twice")


@spelling("vendor-positional")
def _(rng: Rng) -> Part:
    while True:
        s, _ = vendor(rng)
        if s.speaks and not s.text.startswith("-"):
            break
    return Part([s.text], [s.text], [], s.source)


@spelling("vendor-under-harmless-name")
def _(rng: Rng) -> Part:
    while True:
        s, _ = vendor(rng)
        if s.speaks:
            break
    return Part(rng.choice([[f"--note={s.text}"], [f"--name=run_{s.text}"], ["--comment", f"uses {s.text} now"], [f"--url=https://h4127/{s.text}/x"]]), [s.text], [], s.source)


TEXT_OPTIONS: dict[str, list[list[str]]] = {
    "json": [["--config"], ["--json"], ["-d"], ["--data"], ["--config-json"], ["--model-kwargs"], ["--extra-args"], ["--runtime-env-json"], ["--overrides"], ["--hf-overrides"], []],
    "py": [["--kwargs"], ["--config"], ["--init-args"], []],
    "yaml": [["--config-inline"], ["--values"], ["--yaml"], ["--manifest"], []],
    "other": [["--config-text"], ["--config"], ["--settings"], ["--input"], []],
    "header": [["-H"], ["--header"], ["--headers"], ["--extra-header"]],
    "url": [["--url"], ["--endpoint"], ["--tracking-uri"], ["--dataset"], ["--dsn"], ["--proxy"], []],
    "conn": [["--dsn"], ["--connection-string"], ["--conn"], ["--database"], ["-S"], []],
    "code": [["-c"]],
}


def text_group(name: str) -> str:
    for start, group in (("json", "json"), ("python-dict", "py"), ("python-tuples", "py"), ("yaml", "yaml"), ("header", "header"), ("url", "url"),
                         ("ado", "conn"), ("odbc", "conn"), ("azure-con", "conn"), ("jdbc", "conn"), ("libpq", "conn"), ("python", "code"), ("js-", "code"), ("powershell", "code"), ("sql", "code")):
        if name.startswith(start):
            return group
    return "other"


def text_part(name: str, text: Text, rng: Rng) -> Part:
    """A text as an argument of an option, joined by = or not."""
    option = rng.choice(TEXT_OPTIONS[text_group(name)])
    if option and option[0].startswith("--") and rng.random() < 0.4:
        words = [f"{option[0]}={text.text}"]
    else:
        words = [*option, text.text]
    return Part(words, text.secrets, text.harmless, text.kind)


CODE_PROGRAMS = {"python-": [["python", "-c"], ["python3", "-c"], ["uv", "run", "python", "-c"]], "js-": [["node", "-e"], ["node", "--eval"], ["deno", "eval"]], "powershell": [["pwsh", "-Command"], ["powershell", "-c"]],
                 "sql": [["psql", "-h", "db7.internal", "-c"], ["mysql", "-e"], ["sqlcmd", "-Q"], ["duckdb", "-c"]]}


def with_text(name: str, rng: Rng) -> Part:
    """A command that carries one of the text formats."""
    text = FORMATS[name](rng)
    if text_group(name) == "code":
        program = rng.choice(next(p for start, p in CODE_PROGRAMS.items() if name.startswith(start)))
        return Part([*program, text.text], text.secrets, text.harmless, text.kind)
    before, after = neighbours(rng), neighbours(rng, 0, 2, model=False)
    part = text_part(name, text, rng)
    bare = len(part.words) == 1 and part.words[0] == text.text
    if bare and text.text.startswith("-"):  # a PEM block is not an option
        part = Part(["--config-text", text.text], text.secrets, text.harmless, text.kind)
    program = rng.choice([["python", "train.py"], ["python3", "-m", "lab.serve"], ["./launch.sh"], ["vllm", "serve"], ["torchrun", "--nproc-per-node", "8", "sft.py"]])
    if bare and before and not re.match(r"-.*=|[^-]", before[-1]):
        before = [*before, "--steps=77"]
    return Part([*program, *before, *part.words, *after], part.secrets, [*part.harmless, *before, *after], part.kind)


def with_spelling(name: str, rng: Rng) -> Part:
    """A training-like command that carries one of the spellings."""
    before, after = neighbours(rng), neighbours(rng, 0, 2, model=False)
    part = SPELLINGS[name](rng)
    if before and before[-1].startswith("-") and "=" not in before[-1] and not part.words[0].startswith("-"):
        before = [*before, "--steps=77"]  # else a flag would take the next word as its value
    program = rng.choice([["python", "train.py"], ["python", "-m", "lab.train"], ["torchrun", "--nproc-per-node=8", "train.py"], ["accelerate", "launch", "sft.py"], ["deepspeed", "train.py"],
                          ["./bench"], ["vllm", "serve", "gpt2-xl"], ["lm_eval"], ["python", "-u", "/opt/app/main.py"]])
    return Part([*program, *before, *part.words, *after], part.secrets, [*part.harmless, *before, *after], part.kind)
