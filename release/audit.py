"""Asks whether anything that a release runs on has a known vulnerability: `pip-audit` on requirements.txt.

    python release/audit.py [--offline-ok]

Exits with 1 where there is one, and says which; with 3 where the advisories cannot be reached, for some package or all:
then nothing is known, and nothing may be released. `--offline-ok` is for CI, where a missing network says nothing about
us: it exits with 0 there, and says loudly that nothing was looked up.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

NOT_LOOKED_UP = 3
LOCK = Path(__file__).parent / "requirements.txt"
_UNREACHABLE = re.compile(
    r"ConnectionError|ConnectTimeout|ReadTimeout|Max retries|timed out|Name or service|Temporary failure|ProxyError"
    r"|No module named pip_audit|Could not connect|Network is unreachable|50[234] "
)


def verdict(code: int, stdout: str, stderr: str) -> tuple[int, str]:
    """The exit code, and what to say of a run of pip-audit."""
    try:
        checked = json.loads(stdout)["dependencies"] if stdout.strip() else None
    except ValueError:
        checked = None
    if checked is None:
        last = (stderr.strip().splitlines() or ["it said nothing"])[-1]
        if _UNREACHABLE.search(stderr):
            return NOT_LOOKED_UP, f"nothing was audited: the advisories cannot be reached ({last[:200]})"
        return 1, f"audit failed: {last[:500]}"
    found = [
        f"{each['name']} {each['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in checked
        for flaw in each.get("vulns", ())
    ]
    unknown = [each["name"] for each in checked if "skip_reason" in each]
    if found:
        return 1, "\n".join(("known vulnerabilities in what a release runs on:", *found))
    if unknown or not checked:
        reason = next((each["skip_reason"] for each in checked if "skip_reason" in each), "no package was checked")
        which = ", ".join(unknown) if len(unknown) < len(checked) else "all of it"
        return NOT_LOOKED_UP, f"not audited: {which}: advisories cannot be reached ({reason})"
    return code, f"no known vulnerability in {len(checked)} packages"


def main() -> int:
    """Run it, and say what came of it."""
    words = ("--requirement", LOCK, "--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")
    ran = subprocess.run(
        [sys.executable, "-m", "pip_audit", *words, "--timeout=20"], capture_output=True, text=True, check=False
    )
    code, said = verdict(ran.returncode, ran.stdout, ran.stderr)
    sys.stdout.write(said + "\n")
    if code == NOT_LOOKED_UP and "--offline-ok" in sys.argv[1:]:
        sys.stdout.write("WARNING: NO ADVISORY WAS LOOKED UP. This passes in CI alone; a release fails here.\n")
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
