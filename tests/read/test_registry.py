"""The registry of readers: each is there, is asked in order, and only those that are asked are imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gpuledger.read.registry import READERS, reader_of
from gpuledger.read.source import Source, look_at


def test_every_reader_is_there_under_a_name_of_its_own() -> None:
    names = [registered.load().name for registered in READERS]
    assert len(set(names)) == len(names)
    assert not any(registered.load().recognises(Source(Path("x"), 3, b"abc")) for registered in READERS)


def test_the_content_decides(decode: Path, tmp_path: Path) -> None:
    disguised = tmp_path / "trace.json"
    disguised.write_bytes(decode.read_bytes())
    reader = reader_of(look_at(disguised))
    assert reader is not None
    assert reader.name == "nsys sqlite"


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
