"""Secrets by their own form: a text in, where it has keys of services, passwords in addresses, random letters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from gpuledger.regex import regex

Place = tuple[int, int]
"""The first letter, and the one behind the last."""

_PREFIXES: Final = r"""
    dckr_[po]at_ GOCSPX- xapp- xox[a-z][.-] gl(?:pat|dt|rt|ft|ptt|cbt|imt|agent|oas|soat|ffct|wt)- AT(?:ATT|CTT|BB)
    shp(?:at|ca|pa|ss|tka)_ whsec_ lin_(?:api|oauth)_ sq0[a-z]{3}- EAAA[A-Z] AGE-SECRET-KEY- github_pat_ gh[pousr]_
    hv[sbr]\. npm_(?=[^\W_]{16}) pypi-(?=[\w-]{16}) rubygems_ do[opr]_v1_ SG\.(?=[\w-]{10}) r8_(?=\w{16}) xai-(?=\w{16})
    nvapi- gsk_ [sr]k_(?:live|test|prod)_ ntn_(?=\w{12}) pplx- AKCp (?:AKIA|ASIA|ABIA|ACCA) AIza ya29\. 1//0 LTAI PMAK-
    pul-(?=[\da-f]{20}) pn[ub]_(?=\w{20}) rdme_ sgp_ sntry[su]_ sm_[aps]at_ shippo_(?:live|test)_ x(?:keysib|smtpsib)-
    FLWSECK fio-u- glsa_ glc_(?=\w{20}) HRKU- ico-(?=\w{32}) dt0[a-z]\d\d\. dp\.(?:pt|st|ct|sa|scim|audit)\. duffel_
    EZ[AT]K(?=\w{20}) CLOJARS_ CCIP(?:AT|RJ)_ NR(?:AK|II|JS)- ph[cx]_(?=\w{20}) figd_ fo1_ fm2_ nfp_ sbp_ sb_secret_
    pscale_(?:tkn|pw|oauth)_ tskey- v1\.0-(?=[\da-f]{24}) lsv2_[a-z]{2}_ tgp_v1_ tvly- jina_(?=[\da-f]{32}) pcsk_ csk-
    bkua_ snyk_(?=\w{20}) sq[aup]_(?=[\da-f]{20}) ops_eyJ p8e- CFPAT- rpa_(?=\w{20}) dapi(?=[\da-f]{8}) api_org_ sha256~
    hf_(?=[^\W_]{16}) sk-(?=[\w-]{16}) secret_(?=[^\W_]{24}) key-(?=[\da-f]{32}) EAA(?=\w{30}) wandb_v\d_ apify_api_
    pat[^\W_]{14}\. (?:live|test)_(?=[\da-f]{30}) access_token\$production\$ esecret_ SK(?=[\da-f]{32}) e2b_(?=\w{20})
    [^\W_]{14}\.atlasv1\. s\.(?=[^\W_]{24}(?!\w))
"""
"""What services begin their keys with, as gitleaks, trufflehog and they say, and what tells it from a word."""
_FORM: Final = regex(
    rf"(?<![A-Za-z0-9])(?P<a>(?:{'|'.join(_PREFIXES.split())})[\w.~+/=-]{{8,}}"
    r"""[^\s"'`<>,;&|()\[\]{}\\]*)"""
    # a token that carries its own claims
    r"|(?<![\w.-])(?P<b>eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*)"
    r"|(?P<c>-----BEGIN [A-Z\d ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z\d ]*PRIVATE KEY[A-Z ]*-----|\Z))"
    r"|(?P<d>PuTTY-User-Key-File.*)"
    r"|(?i:\bbearer\s+|\bbasic\s+(?=[\w+/]{16}))(?P<e>(?=[\w.~+/=-]*\d|[\w.~+/=-]{16})[\w.~+/=-]{6,})"
    # who asks, in an address; up to the last @, as a password may hold one
    r"""|(?<![\w+.-])(?i:[a-z][a-z0-9+.-]{0,20}://)[^\s/:@"']{0,99}:(?!\d{1,5}[/?])(?P<f>(?!\$)[^\s"'<>]{1,200})@(?=[\w.\[$-])"""
    r"""|https?://(?P<g>(?=[^\s/:@"']*\d|[^\s/:@"']{20})[^\s/:@"'$]{8,})@"""
    r"""|(?<![\w/@:.-])(?!mailto:)[\w.-]+:(?P<h>(?!\$)[^\s/:@"']{4,})@(?!sha\d+:)[\w.-]+"""
    r"|:thin:\w+/(?P<i>[^\s@]+)@"
    r"""|(?i:\b(?:proxy-?)?user\s*[=:]\s*["']?)[^\s:"'=]+:(?P<k>(?!\d+\b|//)[^\s"']+)"""
    r"|(?<![\w/:.-])[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w*-]+:(?P<l>[^\s:]{4,})"  # ~/.pgpass
    r"|(?i:hooks?\.slack\.com/[a-z]+|/web-?hooks?(?:b2)?)/(?P<j>[\w/.~%@-]{8,})"
    r"|/t/(?P<n>[\w-]{16,})/|(?<![A-Za-z0-9])(?:bot)?\d{6,12}:(?P<o>AA[\w-]{20,})"
    r"|/hooks?/(?:catch/)?(?P<m>(?=[\w/]*-?\d)[\w/.~%@-]{16,})",
    re.S,
)
_RUN: Final = regex(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,256}={0,2}(?![\w+/=-])")
_RUN_OF_ONE_CASE: Final = regex(r"(?:(?<=//)|(?<![\w+/@:.-]))(?P<body>[a-z0-9]{24,256}|[A-Z0-9]{24,256})(?![\w+/.-])")
_TAGGED: Final = regex(r"(?<![\w./-])(?:[A-Za-z][A-Za-z0-9]{1,11}[_.-]){1,3}(?P<body>[A-Za-z0-9]{20,256})(?!\w)")
"""A service's tag and what it drew, as all of them write their keys."""
_DIGEST: Final = regex(
    r"(?:^|[^a-z])(?:commit|rev|revision|sha\d*|md5|digest|hash|checksum|sum|ref|refs|tree|tag|id|ids|uuid|guid|version|build"
    r"|checkout|switch|detach|hard|soft|reset|revert|show|merge|rebase|pick|fsck|log|bisect|good|bad|match|etag)\W{1,4}$",
    re.IGNORECASE,
)
"""What stands before a text that is drawn at random, or looks so, and is no secret."""

_LETTERS: Final = regex("[a-z]{3,}")
_CHANGES_SHARE: Final = 0.4
"""Of neighbours in a random text, six in ten are of different kinds: capitals, small letters, digits."""
_CHANGES_SHARE_OF_ONE_CASE: Final = 0.28
"""Four or five in ten where letters are of one case: a key in hexadecimal, or in base 32 or 36."""
_WORDS_SHARE: Final = 0.65
"""Of small letters in a random text, four in ten stand three or more in a row; in one made of words nearly all."""
_SEPARATORS_SHARE: Final = 0.12
_LETTERS_EACH: Final = 3
_SHORTEST_SEGMENT: Final = 16
"""Letters between slashes, which base 64 has one of in 64: a path has them closer."""


def secret_forms(text: str, before: str = "") -> Iterator[Place]:
    """Where keys of services, passwords in addresses and what looks drawn at random are; `before` is the last word."""
    yield from (match.span(match.lastgroup or 0) for match in _FORM.finditer(text))
    yield from (run.span() for run in _RUN.finditer(text) if looks_random(run[0]))
    for run in (*_RUN_OF_ONE_CASE.finditer(text), *_TAGGED.finditer(text)):
        if _looks_drawn(run["body"]) and not _is_digest(text, run.start("body"), before):
            yield run.span()


def _is_digest(word: str, start: int, before: str) -> bool:
    """Whether it is named for a commit, a digest or a number, in this word or by the one before it."""
    text = f"{before} {word[max(start - 40, 0) : start]}"
    return _DIGEST.search(text) is not None


def _looks_drawn(text: str) -> bool:
    """The same of digits and letters of one case: 97 of 100 keys of 40 hexadecimal digits are seen."""
    lowered = text.lower()
    is_digit = [letter.isdigit() for letter in lowered]
    in_words = sum(map(len, _LETTERS.findall(lowered)))
    changes = sum(one != next_ for one, next_ in pairwise(is_digit))
    letters = len(text) - sum(is_digit)
    return changes >= _CHANGES_SHARE_OF_ONE_CASE * (len(text) - 1) and in_words <= _WORDS_SHARE * letters


def looks_random(text: str) -> bool:
    """Whether letters and digits follow each other as if drawn: names of kernels, models and runs are made of words.

    Of 32 characters drawn at random nine in ten are seen.
    """
    if "/" in text and max(map(len, text.split("/"))) < _SHORTEST_SEGMENT:
        return False
    kinds = [letter.isupper() + 2 * letter.islower() for letter in text if letter.isalnum()]
    digits, capitals, small = map(kinds.count, range(3))
    if not digits or min(capitals, small) < _LETTERS_EACH or len(text) - len(kinds) > _SEPARATORS_SHARE * len(text):
        return False
    changes = sum(one != next_ for one, next_ in pairwise(kinds))
    in_words = sum(map(len, _LETTERS.findall(text)))
    return changes >= _CHANGES_SHARE * (len(kinds) - 1) and in_words < _WORDS_SHARE * small
