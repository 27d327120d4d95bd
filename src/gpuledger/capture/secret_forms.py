"""Secrets by their own form: keys of services, passwords in addresses, random letters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import ne
from typing import Final

from gpuledger.regex import regex

Span = tuple[int, int]
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
    rf"(?<![A-Za-z0-9])(?P<service>(?:{'|'.join(_PREFIXES.split())})[\w.~+/=-]{{8,}}[^\s\"'`<>,;&|()\[\]{{}}\\]*)"
    r"|(?<![\w.-])(?P<claims>eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*)*)"
    r"|(?P<pem>-----BEGIN [A-Z\d ]*PRIVATE KEY.*?(?:-----END [A-Z\d ]*PRIVATE KEY[A-Z ]*-----|\Z)|PuTTY-User-Key-File.*)"
    r"|(?i:\bbearer\s+|\bbasic\s+(?=[\w+/]{16}))(?P<header>(?=[\w.~+/=-]*\d|[\w.~+/=-]{16})[\w.~+/=-]{6,})"
    # in an address; up to the last @, as a password may hold one
    r"""|(?<![\w+.-])(?i:[a-z][a-z0-9+.-]{0,20}://)[^\s/:@"']{0,99}:(?!\d{1,5}[/?])(?P<address>(?!\$)[^\s"'<>]{1,200})"""
    r"""@(?=[\w.\[$-])|https?://(?P<user>(?=[^\s/:@"']*\d|[^\s/:@"']{20})[^\s/:@"'$]{8,})@"""
    r"""|(?<![\w/@:.-])(?!mailto:)[\w.-]+:(?P<host>(?!\$)[^\s/:@"']{4,})@(?!sha\d+:)[\w.-]+|:thin:\w+/(?P<thin>[^\s@]+)@"""
    r"|(?<![\w/:.-])[\w.*-]+:(?:\d{4,5}|\*):[\w*-]+:[\w*-]+:(?P<pgpass>[^\s:]{4,})"
    r"|(?i:hooks?\.slack\.com/[a-z]+|/web-?hooks?(?:b2)?)/(?P<hook>[\w/.~%@-]{8,})|/t/(?P<path>[\w-]{16,})/"
    r"|/hooks?/(?:catch/)?(?P<caught>(?=[\w/]*-?\d)[\w/.~%@-]{16,})|(?<![A-Za-z0-9])(?:bot)?\d{6,12}:(?P<bot>AA[\w-]{20,})",
    re.S,
)
_MIXED: Final = regex(r"(?<![\w+/-])[A-Za-z0-9+/_-]{20,256}={0,2}(?![\w+/=-])")
_ONE_CASE: Final = regex(
    r"(?:(?<=//)|(?<![\w+/@:.-]))(?:[A-Za-z][A-Za-z0-9]{1,11}[_.-]){0,3}(?P<body>[A-Za-z0-9]{20,256})(?![\w+/.-])"
)
"""Letters and digits that look drawn at random, maybe behind a service's tag."""
_DIGEST: Final = regex(
    r"(?i)(?:^|[^a-z])(?:commit|rev|revision|sha\d*|md5|digest|hash|checksum|sum|refs?|tree|tag|ids?|uuid|guid|version|build"
    r"|checkout|switch|detach|hard|soft|reset|revert|show|merge|rebase|pick|fsck|log|bisect|good|bad|match|etag)\W{1,4}$"
)
_LETTERS: Final = regex("[a-z]{3,}")
_MIN_CHANGES_SHARE, _MIN_CHANGES_SHARE_OF_ONE_CASE, _MAX_WORDS_SHARE = 0.4, 0.28, 0.65
"""Neighbours of different kinds (capitals, small letters, digits): six in ten in a random text, four in ten in a key in
hexadecimal. Small letters in a row of three or more: four in ten in a random text, nearly all in one made of words."""
_MIN_LETTERS_OF_A_KIND, _MAX_SEPARATORS_SHARE, _MIN_SEGMENT = 3, 0.12, 16


def secret_forms(text: str) -> Iterator[Span]:
    """Spans of what looks like a secret."""
    yield from (match.span(match.lastgroup or 0) for match in _FORM.finditer(text))
    yield from (run.span() for run in _MIXED.finditer(text) if looks_random(run[0]))
    for run in _ONE_CASE.finditer(text):
        is_digest = _DIGEST.search(text[max(run.start("body") - 40, 0) : run.start("body")])
        if not is_digest and _changes(run["body"].lower(), _MIN_CHANGES_SHARE_OF_ONE_CASE):
            yield run.span()


def _changes(text: str, min_share: float) -> bool:
    """Whether letters and digits follow each other as if drawn, and make no words."""
    kinds = [letter.isupper() + 2 * letter.islower() for letter in text if letter.isalnum()]
    changes, in_words = sum(map(ne, kinds, kinds[1:])), sum(map(len, _LETTERS.findall(text)))
    return changes >= min_share * (len(kinds) - 1) and in_words <= _MAX_WORDS_SHARE * kinds.count(2)


def looks_random(text: str) -> bool:
    """Whether capitals, small letters and digits are mixed as if drawn: so are nine in ten keys of 32 characters."""
    if "/" in text and max(map(len, text.split("/"))) < _MIN_SEGMENT:
        return False  # a path; base 64 has a slash in 64 letters
    digits, *cases = (sum(map(kind, text)) for kind in (str.isdigit, str.isupper, str.islower))
    is_separated = len(text) - digits - sum(cases) > _MAX_SEPARATORS_SHARE * len(text)
    is_mixed = digits > 0 and min(cases) >= _MIN_LETTERS_OF_A_KIND and not is_separated
    return is_mixed and _changes(text, _MIN_CHANGES_SHARE)
