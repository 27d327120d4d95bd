"""Asks whether anything that a release runs on has a known vulnerability: `pip-audit` on requirements.txt.

    python release/audit.py

Fails where there is one, and says which. Where the advisories cannot be reached it says so, and is no failure: that
there is no network says nothing about us.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

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
            return 0, f"audit skipped: the advisories cannot be reached ({last[:200]})"
        return 1, f"audit failed: {last[:500]}"
    found = [
        f"{each['name']} {each['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for each in checked
        for flaw in each.get("vulns", ())
    ]
    unknown = [each["name"] for each in checked if "skip_reason" in each]
    if unknown and len(unknown) == len(checked):
        return 0, f"audit skipped: the advisories cannot be reached ({checked[0]['skip_reason']})"
    if found:
        return 1, "\n".join(("known vulnerabilities in what a release runs on:", *found))
    besides = f"; nothing is known of {', '.join(unknown)}" if unknown else ""
    return code, f"no known vulnerability in {len(checked) - len(unknown)} packages{besides}"


def main() -> int:
    """Run it, and say what came of it."""
    words = ("--requirement", LOCK, "--require-hashes", "--disable-pip", "--progress-spinner=off", "--format=json")
    ran = subprocess.run(
        [sys.executable, "-m", "pip_audit", *words, "--timeout=20"], capture_output=True, text=True, check=False
    )
    code, said = verdict(ran.returncode, ran.stdout, ran.stderr)
    sys.stdout.write(said + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
