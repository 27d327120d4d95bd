"""What Nsight Compute adds to a report, as somebody last looked at it."""

from __future__ import annotations

import pytest

from support.profiles.kept_answers import hold


@pytest.mark.usefixtures("ncu_asked_once")
def test_findings_about_counted_kernels_stand_as_they_were() -> None:
    hold(
        "report --ncu",
        "ncu/planned-1.ncu-rep.xz",
        "ncu/planned.sqlite.xz",
        only=("findings", "kernels"),
    )
