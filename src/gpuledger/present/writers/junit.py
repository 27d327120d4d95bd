"""Checks as JUnit XML, which every CI system shows: one test case per check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from xml.etree import ElementTree

from msgspec import Struct

from gpuledger.present.safe_text import visible

_NOT_IN_XML: Final = re.compile(r"[\ufffe\uffff]")


class Case(Struct, frozen=True):
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
    top = ElementTree.SubElement(root, "testsuite", {"name": _plain(suite), **counted})
    for case in cases:
        testcase = ElementTree.SubElement(top, "testcase", {"classname": _plain(suite), "name": _plain(case.name)})
        if case.failure:
            ElementTree.SubElement(testcase, "failure", {"message": _plain(case.failure)}).text = _plain(case.said)
        ElementTree.SubElement(testcase, "system-out").text = _plain(case.said)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _plain(text: str) -> str:
    """Text that XML can hold."""
    return _NOT_IN_XML.sub("?", visible(text))
