"""Judge a secrets filter with generated cases and with commands from public documentation.

    PYTHONPATH=<src> python judge.py [--seed N] [--count M] [--show K] [--readme-only | --cases-only] [--json FILE]

Without --seed every run draws other cases (and does not tell the seed). Exit status: 1 where anything leaked, 0 otherwise.
"""
from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))  # behind PYTHONPATH: the filter under test comes from there

from generator import Case, cases  # noqa: E402

PIECE = 5
SLOW_S = 0.5
# public heads of tokens: to leave them visible tells which service it is, and no more
LABEL = re.compile(r"github_pat_|glpat-|glrt-|gh[opsu]_|xox[a-z]-|xapp-1-|sk-(?:proj-|ant-api03-|or-v1-)?|[sr]k_(?:live|test)_|whsec_|dckr_pat_|GOCSPX-|AIza|ya29\.|ATATT3xFfGF0|shp(?:at|ss|pa)_|"
                   r"secret_|ntn_|lin_api_|sq0csp-|SG\.|npm_|pypi-(?:AgEIcHlwaS5vcmc)?|hf_|nvapi-|gsk_|pplx-|xai-|dop_v1_|hvs\.|NRAK-|sntrys_|gls?a_|glc_|dp\.st\.(?:prd\.)?|pul-|sbp_|pscale_tkn_|fm2_|"
                   r"tskey-auth-|CCIPAT_|bkua_|figd_|squ_|pcsk_|lsv2_pt_|rubygems_|ops_|AGE-SECRET-KEY-1|AKCp|rpa_|r8_|nfp_|key-|ms-|dapi")
PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass
class Found:
    """What was found wrong, by sort: (kind, what, shown)."""

    rows: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)

    def add(self, sort: str, kind: str, what: str, shown: str) -> None:
        self.rows.setdefault(sort, []).append((kind, what, shown))


def without(texts: list[str], secrets: list[str], mark: str) -> list[str]:
    """The texts with each secret replaced, longest first."""
    for s in sorted(secrets, key=len, reverse=True):
        texts = [t.replace(s, mark) for t in texts]
    return texts


def count(piece: str, texts: list[str]) -> int:
    return sum(t.count(piece) for t in texts)


def visible_piece(secret: str, before: list[str], after: list[str]) -> str:
    """The longest part of the secret (5 characters or more) that the output shows oftener than the input does without its secrets."""
    best = ""
    n = len(secret)
    for i in range(0, n - PIECE + 1):
        j = i + max(PIECE, len(best) + 1)
        while j <= n and (have := count(secret[i:j], after)) and have > count(secret[i:j], before):
            best = secret[i:j]
            j += 1
    return best


def word_count(word: str, texts: list[str]) -> int:
    left = r"(?<!\w)" if re.match(r"\w", word) else ""
    right = r"(?!\w)" if re.search(r"\w$", word) else ""
    return sum(len(re.findall(left + re.escape(word) + right, t)) for t in texts)


def balance(text: str) -> tuple[int, ...]:
    """Open minus closed for the brackets, odd or even for the quotes."""
    return (*(text.count(a) - text.count(b) for a, b in PAIRS.items()), text.count('"') % 2, text.count("'") % 2, text.count("`") % 2)


def call(filt: Callable[[list[str]], list[str]], shown_value: Callable[[str, str], Any] | None, case: Case, found: Found) -> list[str] | None:
    """The output of the filter for a case; what goes wrong in the call itself is noted."""
    start = time.perf_counter()
    try:
        if case.env:
            if shown_value is None:
                return None
            out = [("" if (v := shown_value(name, value)) is None else str(v)) for name, value in case.env.items()]
        else:
            out = list(filt(list(case.argv)))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        found.add("error", case.kind, repr(error), repr(case.argv or case.env))
        return None
    if (took := time.perf_counter() - start) > SLOW_S:
        found.add("slow", case.kind, f"{took:.1f} s", repr(case.argv or case.env))
    if not all(isinstance(x, str) for x in out):
        found.add("error", case.kind, "not all texts", repr(out))
        return None
    return out


def judge_case(case: Case, out: list[str], found: Found) -> None:
    """Compare a case with what the filter made of it."""
    given = case.argv or list(case.env.values())
    shown = repr(out)
    rest = without(given, case.secrets, "\0")
    for secret in case.secrets:
        if count(secret, out) > count(secret, rest):
            found.add("leak", case.kind, secret, shown)
        elif (piece := visible_piece(secret, rest, out)) and (m := LABEL.match(secret)) and not visible_piece(secret[m.end() :], rest, out):
            found.add("label", case.kind, piece, shown)
        elif piece:
            found.add("half", case.kind, f"{piece!r} of {secret!r}", shown)
    for h in case.harmless:
        if word_count(h, out) < word_count(h, rest):
            found.add("lost", case.kind, h, shown)
    if case.argv and len(out) != len(given):
        found.add("length", case.kind, f"{len(given)} words became {len(out)}", shown)
    elif case.argv:
        for a, b in zip(without(given, case.secrets, "X"), out, strict=True):
            if balance(a) != balance(b):
                found.add("damage", case.kind, f"brackets or quotes no longer pair: {b!r}", repr(a))


def judge_cases(filt: Callable[[list[str]], list[str]], shown_value: Callable[[str, str], Any] | None, seed: int | None, number: int, show: int) -> tuple[Found, int]:
    found = Found()
    secrets = harmless = 0
    by_kind: Counter[str] = Counter()
    for case in cases(seed, number):
        out = call(filt, shown_value, case, found)
        if out is None:
            continue
        secrets += len(case.secrets)
        harmless += len(case.harmless)
        by_kind[family(case.kind)] += 1
        judge_case(case, out, found)
    print(f"{number} cases, {len(by_kind)} families of kinds, {secrets} secrets, {harmless} harmless texts")
    for sort in ("leak", "half", "lost", "damage", "length", "slow", "error", "label"):
        rows = found.rows.get(sort, [])
        families = Counter(family(kind) for kind, _, _ in rows)
        print(f"\n{sort}: {len(rows)}" + (f" in {len(families)} families: " + ", ".join(f"{k} {n}" for k, n in families.most_common(40)) if rows else ""))
        seen: Counter[str] = Counter()
        for kind, what, shown in rows:
            seen[family(kind)] += 1
            if seen[family(kind)] <= 2 and sum(min(2, n) for n in seen.values()) <= show:
                print(f"  [{kind}] {what}\n      {shown[:600]}")
    return found, secrets


def family(kind: str) -> str:
    return "/".join(kind.split(" in ")[0].split("/")[:2])


def judge_readme(filt: Callable[[list[str]], list[str]], shown_value: Callable[[str, str], Any] | None, show: int) -> int:
    """The share of harmless words of real commands that are withheld, and the credentials that stay."""
    rows = json.loads((HERE / "readme_commands.json").read_text())
    total = lost = secrets = stayed = touched = 0
    lines: list[str] = []
    leaks: list[str] = []
    for row in rows:
        found = Found()
        out: list[str] = []
        if row["argv"]:
            got = call(filt, shown_value, Case(row["argv"], [], [], "readme"), found)
            out += got if got is not None else []
        if row["env"]:
            got = call(filt, shown_value, Case([], [], [], "readme", row["env"]), found)
            if got is None and shown_value is None:
                continue
            out += got if got is not None else []
        for sort, bad in found.rows.items():
            lines += [f"{sort}: {what} | {shown[:300]}" for _, what, shown in bad]
        given = [*row["argv"], *row["env"].values()]
        rest = without(given, row["secrets"], "\0")
        want = Counter(row["harmless_values"])
        gone = {w: n - word_or_text(w, out) for w, n in want.items() if word_or_text(w, out) < n}
        total += sum(want.values())
        lost += sum(gone.values())
        if gone:
            touched += 1
            lines.append(f"{row['source']}\n    withheld: {gone}\n    shown: {out!r}"[:1500])
        for s in row["secrets"]:
            secrets += 1
            if count(s, out) > count(s, rest):
                stayed += 1
                leaks.append(f"{s!r} in {out!r}"[:400])
    print(f"\nreadme_commands.json: {len(rows)} commands, {total} harmless words, withheld {lost} ({100 * lost / max(1, total):.2f} %) in {touched} commands; {secrets} credentials (most are placeholders), {stayed} still shown")
    for line in lines[:show]:
        print("  " + line)
    for line in leaks[:show]:
        print("  still shown: " + line)
    return stayed


def word_or_text(word: str, out: list[str]) -> int:
    """How often a word of the command stands in the output, as a word or at least as a text in one."""
    return sum(w == word for t in out for w in t.split()) or count(word, out)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--show", type=int, default=60, help="findings to print of each sort")
    parser.add_argument("--readme-only", action="store_true", help="commands of readme_commands.json beside this file")
    parser.add_argument("--cases-only", action="store_true")
    parser.add_argument("--json", type=Path, help="write all findings there")
    args = parser.parse_args()
    module = importlib.import_module("gpuledger.capture.secrets")
    filt, shown_value = module.without_secrets, getattr(module, "shown_value", None)
    if shown_value is None:
        print("no shown_value in the module: environment cases are left out")
    bad = 0
    if not args.readme_only:
        found, _ = judge_cases(filt, shown_value, args.seed, args.count, args.show)
        bad += sum(len(found.rows.get(sort, [])) for sort in ("leak", "half", "error"))
        if args.json:
            args.json.write_text(json.dumps(found.rows, ensure_ascii=False, indent=1))
    if not args.cases_only and (HERE / "readme_commands.json").exists():
        judge_readme(filt, shown_value, args.show)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
