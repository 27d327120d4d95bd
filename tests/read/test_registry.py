"""The registry of readers: each is there, is asked in order, and only those that are asked are imported."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

from gpuledger.read.registry import READERS, load_reader, reader_of
from gpuledger.read.source import Source, look_at
from support.command import ROOT
from support.profiles import perfetto_files
from support.profiles.rocm_files import rocprof_csv
from support.profiles.xplane_files import xplane


def test_every_reader_is_there_under_a_name_of_its_own() -> None:
    names = [load_reader(place).name for place in READERS]
    assert len(set(names)) == len(names)
    assert not any(load_reader(place).recognises(Source(Path("x"), 3, b"abc")) for place in READERS)


def test_every_reader_knows_its_own(unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    report, archive = tmp_path / "run", tmp_path / "traces"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 36398880.")
    trace = ROOT / "captures" / "torch" / "decode.json.gz"
    with tarfile.open(archive, "w") as packed:
        packed.add(trace, "rank0.json.gz")
    known = {
        unpacked("decode.sqlite"): "sqlite",
        unpacked("decode.parquetdir.tar"): "nsys parquetdir and arrowdir",
        unpacked("decode.arrowdir.tar"): "nsys parquetdir and arrowdir",
        report: "nsys report",
        archive: "archive",
        trace: "json",
        rocprof_csv(tmp_path / "run"): "rocprof csv",
        xplane(tmp_path / "jax"): "xplane",
        perfetto_files.saved(tmp_path / "amd", perfetto_files.rocprofv3()): "perfetto",
    }
    assert {path: reader.name for path in known if (reader := reader_of(look_at(path))) is not None} == known
    assert set(known.values()) == {load_reader(place).name for place in READERS}


def test_the_content_decides(decode: Path, tmp_path: Path) -> None:
    disguised = tmp_path / "trace.json"
    disguised.write_bytes(decode.read_bytes())
    reader = reader_of(look_at(disguised))
    assert reader is not None
    assert reader.name == "sqlite"


def test_a_reader_that_is_not_asked_is_not_imported(decode: Path) -> None:
    code = f"""if True:
        import sys
        from pathlib import Path
        from gpuledger.read.registry import reader_of
        from gpuledger.read.source import look_at
        assert reader_of(look_at(Path({str(decode)!r}))) is not None
        assert "gpuledger.read.torch.reader" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
