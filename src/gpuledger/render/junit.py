"""Checks as JUnit XML, which every CI system shows: one test case per check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from gpuledger.render.plain import visible


@dataclass(frozen=True, slots=True)
class Case:
    """One check. A failure has a sentence that says why."""

    name: str
    said: str
    """What was found, in a sentence."""
    failure: str = ""


def junit_xml(suite: str, cases: Sequence[Case]) -> str:
    """The document, ended by a newline."""
    failures = str(sum(bool(case.failure) for case in cases))
    counted = {"tests": str(len(cases)), "failures": failures, "errors": "0", "skipped": "0"}
    root = ElementTree.Element("testsuites", {"name": "gpuledger", **counted})
    top = ElementTree.SubElement(root, "testsuite", {"name": visible(suite), **counted})
    for case in cases:
        held = ElementTree.SubElement(top, "testcase", {"classname": visible(suite), "name": visible(case.name)})
        if case.failure:
            ElementTree.SubElement(held, "failure", {"message": visible(case.failure)}).text = visible(case.said)
        ElementTree.SubElement(held, "system-out").text = visible(case.said)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
