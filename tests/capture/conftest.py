"""Other machines to record on, each set up once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.profiles.torch_traces import SMALL, saved
from support.programs.other_machines import OtherMachine, furnished, pod, ssh_host


@pytest.fixture(scope="session")
def programs_there(tmp_path_factory: pytest.TempPathFactory, unpacked: Callable[[str], Path]) -> tuple[Path, str]:
    """The folder of the other machines' programs, and their PATH."""
    folder = tmp_path_factory.mktemp("there")
    return folder, furnished(folder, unpacked("decode.sqlite"), saved(folder / "trace.json.gz", SMALL))


@pytest.fixture(scope="session")
def ssh_machine(programs_there: tuple[Path, str]) -> Iterator[OtherMachine]:
    with ssh_host(*programs_there) as machine:
        yield machine


@pytest.fixture(scope="session")
def pod_machine(programs_there: tuple[Path, str]) -> OtherMachine:
    return pod(*programs_there)


@pytest.fixture(params=["ssh", "kubectl"])
def there(request: pytest.FixtureRequest) -> OtherMachine:
    """Each of them in turn."""
    machine: OtherMachine = request.getfixturevalue({"ssh": "ssh_machine", "kubectl": "pod_machine"}[request.param])
    return machine
