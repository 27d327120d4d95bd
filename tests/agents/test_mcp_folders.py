"""Which files an agent may open: what lies below the folders, and nothing that links or dots lead to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuledger.agents.profiles import AllowedFolders
from gpuledger.errors import UnreadableProfile
from gpuledger.system.opening import only_below
from support.profiles.nsys_exports import kernel, minimal


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that may be read, with links, beside one that may not."""
    root = tmp_path_factory.mktemp("agents")
    (root / "mine" / "deep").mkdir(parents=True)
    (root / "yours").mkdir()
    for path in (root / "mine" / "deep" / "run.sqlite", root / "yours" / "run.sqlite"):
        minimal(path, KERNEL=[kernel(0, 10)])
    (root / "mine" / "inside").symlink_to(root / "mine" / "deep")
    (root / "mine" / "outside").symlink_to(root / "yours")
    (root / "mine" / "leak.sqlite").symlink_to(root / "yours" / "run.sqlite")
    (root / "mine" / "circle").symlink_to(root / "mine" / "circle")
    (root / "mine" / "export").mkdir()
    (root / "mine" / "export" / "KERNEL.parquet").symlink_to(root / "yours" / "run.sqlite")
    (root / "mine-too").mkdir()
    return root


def test_what_lies_below_is_found_from_each_folder(place: Path) -> None:
    folders = AllowedFolders([place / "yours", place / "mine"])
    real = str(place / "mine" / "deep" / "run.sqlite")
    assert folders.address("deep/run.sqlite") == folders.address("inside/run.sqlite") == folders.address(real) == real
    assert folders.address("run.sqlite") == str(place / "yours" / "run.sqlite")
    assert AllowedFolders([place / "mine"]).address("deep/../deep/a.zip::b.json") == str(
        place / "mine" / "deep" / "a.zip::b.json"
    )


@pytest.mark.parametrize(
    "given",
    [
        "../yours/run.sqlite",
        "outside/run.sqlite",
        "leak.sqlite",
        "deep/../../yours/run.sqlite",
        "../mine-too/x",
        "/etc/passwd",
        "/etc/passwd::member",
        "leak.sqlite::x",
        "~/run.sqlite/../../../..",
    ],
)
def test_what_leads_elsewhere_is_refused_whether_it_is_there_or_not(place: Path, given: str) -> None:
    with pytest.raises(UnreadableProfile, match="outside of the folders") as refusal:
        AllowedFolders([place / "mine"]).address(given)
    assert str(place / "mine") in refusal.value.found


@pytest.mark.parametrize("given", ["a\0b", "circle"])
def test_what_is_no_path_is_refused(place: Path, given: str) -> None:
    with pytest.raises(UnreadableProfile):
        AllowedFolders([place / "mine"]).address(given)


@given(st.text(max_size=30) | st.lists(st.sampled_from(["..", "deep", "outside", "/", "::", "x"])).map("/".join))
def test_an_address_is_never_outside(place: Path, given: str) -> None:
    try:
        address = AllowedFolders([place / "mine"]).address(given)
    except UnreadableProfile:
        return
    assert Path(address.partition("::")[0]).resolve().is_relative_to(place / "mine")


def test_profiles_are_listed_by_what_they_hold(place: Path) -> None:
    folders = AllowedFolders([place / "mine"])
    with only_below(folders.folders):
        assert [path for _, path, _ in folders.profiles()] == [Path("deep/run.sqlite")]
