"""Views of what was run or checked: a capture, doctor, bench, timings, runbooks."""
