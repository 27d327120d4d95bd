"""Writes the bill of materials of a release, as CycloneDX JSON: what it is made of, by version, licence and hash.

    python release/sbom.py > dist/gpuledger.cdx.json

In: requirements.txt beside this, and what the installed packages say of themselves: gpuledger must be one of them, for
its version. The licence of one that is not installed here is left out.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
_ENTRY = re.compile(
    r"^(?P<name>[\w.-]+)==(?P<version>[^\s\\]+)(?P<hashes>(?:\s*\\\n\s+--hash=sha256:[0-9a-f]{64})*)", re.MULTILINE
)


def locked(text: str) -> dict[str, tuple[str, list[str]]]:
    """The version and the hashes of each package in a list of requirements."""
    return {
        entry["name"]: (entry["version"], re.findall(r"sha256:([0-9a-f]{64})", entry["hashes"]))
        for entry in _ENTRY.finditer(text)
    }


def bill(text: str) -> dict[str, Any]:
    """The document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = {"type": "application", "name": project["name"], "version": metadata.version(project["name"])}
    own["purl"] = own["bom-ref"] = f"pkg:pypi/{own['name']}@{own['version']}"
    components = [_component(name, version, digests) for name, (version, digests) in locked(text).items()]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own['purl'] + text)}",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"license": {"id": project["license"]}}]}},
        "components": components,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _component(name: str, version: str, digests: list[str]) -> dict[str, Any]:
    place = f"pkg:pypi/{name}@{version}"
    component: dict[str, Any] = {"type": "library", "bom-ref": place, "name": name, "version": version, "purl": place}
    if licence := _licence(name):
        component["licenses"] = [{"license": {"name": licence}}]
    files = [{"type": "distribution", "url": f"https://pypi.org/project/{name}/{version}/", "hashes": _hashes(digests)}]
    return component | {"externalReferences": files}


def _hashes(digests: list[str]) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": digest} for digest in digests]


def _licence(name: str) -> str:
    """What an installed package says in one line; '' where it is not installed or says it at length."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    said = about.get("License-Expression") or about.get("License") or ""
    marks = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License ::")]
    return said if said and "\n" not in said and len(said) < 80 else " and ".join(marks)


if __name__ == "__main__":
    json.dump(bill((ROOT / "release" / "requirements.txt").read_text()), sys.stdout, indent=2)
    sys.stdout.write("\n")
