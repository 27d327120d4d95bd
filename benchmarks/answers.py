"""Did any answer change? Every verb and format over every profile there is, recorded before a change and after it.

    PYTHONPATH=tests .venv/bin/python benchmarks/answers.py record FOLDER [--only=PART] [--share=1/4]
    PYTHONPATH=tests .venv/bin/python benchmarks/answers.py compare BEFORE AFTER

`record` unpacks the captures of this repository, and the corpus of third-party profiles where it lies beside the
checkout, calls the command over each, and keeps exit code, stdout and stderr, one file a call. `compare` lists the
calls whose answer differs, with their first differing lines; it exits with 1 where there are any.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import lzma
import multiprocessing
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from support.command import ROOT, gpuledger

PROFILE_VERBS = (
    *("report", "info", "stats", "gaps", "steps", "memory", "ranges", "whatif"),
    *("ops", "whatif", "kernels"),
)
FORMATS = ("text", "csv", "json")
OF_REPORTS = ("--format=md", "--format=html", "--lang=zh", "--lang=zh --format=html", "--brief", "--raw")
OF_FEW = ("--format=html", "--lang=zh", "--lang=zh --format=html", "--format=md", "--raw")
FEW = (
    "decode.sqlite",
    "moe_loop.sqlite",
    "decode.json.gz",
    "metrics_llama.sqlite",
    "h100_2gpu_1s.sqlite",
    "leak.pickle",
)
"""Profiles on which every verb is also asked for Chinese, Markdown and pages."""
SQL = ("kernels", "calls", "ranges", "copies", "gaps", "steps", "ledger", "findings", "operators")
EXPORTS = ("t.json", "t.pftrace")
RANDOM = 24
"""Generated exports that are looked at, of 200."""


def _unpack(folder: Path) -> None:
    sources = [ROOT / "captures", ROOT.parent / "shared" / "corpus"]
    for source in sources:
        for packed in sorted(source.rglob("*")):
            target = folder / source.name / packed.relative_to(source)
            if packed.is_dir() or packed.name.endswith((".md", ".sh", ".py", ".cu", ".csv")):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if packed.name.endswith(".tar.xz"):
                with tarfile.open(packed) as archive:
                    archive.extractall(
                        target.with_name(packed.name.removesuffix(".tar.xz") + ".members"), filter="data"
                    )
            elif packed.suffix == ".xz":
                target.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
            else:
                shutil.copyfile(packed, target)


def profiles(folder: Path) -> list[Path]:
    """Every profile, unpacked below `folder`."""
    if not folder.exists():
        half = folder.with_name(f"{folder.name}.{os.getpid()}")
        _unpack(half)
        half.rename(folder)
    listed = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_profile(path)]
    listed += [
        path for path in sorted(folder.rglob("*")) if path.is_dir() and path.suffix in (".arrowdir", ".parquetdir")
    ]
    return listed


def _is_profile(path: Path) -> bool:
    if any(part.endswith((".arrowdir", ".parquetdir")) for part in path.parts):
        return False
    if number := re.fullmatch(r"random(\d+)\.sqlite", path.name):
        return int(number[1]) < RANDOM
    return not path.name.endswith((".csv", ".txt", "step_ns.json")) and not path.parent.name.startswith("random0")


def calls(path: Path) -> Iterator[tuple[str, ...]]:
    """What is asked about one profile."""
    name = str(path)
    for verb in PROFILE_VERBS:
        yield from ((verb, name, f"--format={format_}") for format_ in FORMATS)
    for more in OF_REPORTS:
        yield ("report", name, *more.split())
    if path.name.endswith(FEW):
        for verb in PROFILE_VERBS[1:]:
            yield from ((verb, name, *more.split()) for more in OF_FEW)
        yield from (("query", name, f"SELECT * FROM {table} LIMIT 50", "--format=csv") for table in SQL)
        yield "query", name, "--schema"
    yield from (("export", name, "-o", ending) for ending in EXPORTS)
    if ".bad." in path.name and (fixed := path.with_name(path.name.replace(".bad.", ".fixed."))).exists():
        yield from (("diff", name, str(fixed), f"--format={format_}") for format_ in (*FORMATS, "html"))
        yield "align", name, str(fixed), "--format=json"


def once(folder: Path) -> Iterator[tuple[str, ...]]:
    """What is asked about pairs and folders of profiles, and about none."""
    nsys, torch, ncu = (folder / "captures" / name for name in ("nsys", "torch", "ncu"))
    serve = folder / "captures" / "serve"
    corpus = folder / "corpus"
    decode, layer = str(nsys / "decode.sqlite"), str(ncu / "layer.ncu-rep")
    for format_ in (*FORMATS, "html", "md"):
        yield "report", decode, f"--ncu={layer}", f"--format={format_}"
        yield "report", decode, f"--ncu={layer}", "--lang=zh", f"--format={format_}"
        yield "diff", str(nsys / "moe_loop.sqlite"), str(nsys / "moe_batched_gemm.sqlite"), f"--format={format_}"
        yield "diff", decode, str(torch / "decode.json.gz"), "--force", f"--format={format_}"
        yield "align", str(nsys / "attn.sqlite"), decode, f"--format={format_}"
        yield "align", str(nsys / "attn.sqlite"), decode, "--lang=zh", f"--format={format_}"
        yield (
            "whatif",
            str(nsys / "experts_loop.sqlite"),
            "--fix=LAUNCH-BOUND",
            "--fix=HOST-SYNC",
            f"--format={format_}",
        )
        yield "whatif", decode, "--speedup=gemm=2", f"--format={format_}"
        for lang in ("en", "zh"):
            yield "fleet", str(nsys / "two_nccl.members"), f"--lang={lang}", f"--format={format_}"
            yield "fleet", str(serve), f"--lang={lang}", f"--format={format_}"
        if corpus.is_dir():
            mfu = [str(path) for path in sorted(corpus.rglob("*mfu_2gpu*"))]
            yield "diff", mfu[1], mfu[0], f"--format={format_}"
            [graph], [capture] = corpus.rglob("*sglang_Qwen3-8B_decode.json.gz"), corpus.rglob("*bs_32_rank0.json.gz")
            for verb in ("report", "ops", "kernels"):
                yield verb, str(graph), f"--names-from={capture}", f"--format={format_}"
    for verb in (
        *PROFILE_VERBS,
        "diff",
        "align",
        "fleet",
        "time",
        "capture",
        "doctor",
        "bench",
        "run",
        "export",
        "query",
    ):
        yield verb, "--help"
    codes = sorted(page.stem for page in (ROOT / "src" / "gpuledger" / "findings" / "explain").glob("*.md"))
    yield from (("explain", code, f"--lang={lang}") for code in codes for lang in ("en", "zh"))
    yield ("explain",)
    yield "capture", "nsys", "--dry-run", "--", "python", "serve.py"
    yield "capture", "ncu", "--dry-run", "--", "python", "serve.py"
    yield "capture", "torch", "--dry-run", "--", "python", "serve.py"


def record(arguments: tuple[str, ...], root: Path, target: Path) -> None:
    """Call the command and keep its answer, under a name made of the call."""
    said = " ".join(arguments).replace(f"{root}/", "")
    name = re.sub(r"[^\w.=-]+", "_", said)
    name = name if len(name) < 180 else f"{name[:150]}.{hashlib.sha256(name.encode()).hexdigest()[:12]}"
    with tempfile.TemporaryDirectory() as folder:
        ran = (
            gpuledger(*arguments, "--no-cache", cwd=Path(folder), COLUMNS="100")
            if arguments[0] not in (*("explain", "capture"),) and "--help" not in arguments
            else gpuledger(*arguments, cwd=Path(folder), COLUMNS="100")
        )
        written = "".join(
            f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file()
        )
    text = f"$ gpuledger {said}\nexit {ran.exit_code}\n{written}{ran.stdout}\n--- stderr\n{ran.stderr}"
    text = text.replace(str(root), "ROOT").replace(folder, "HERE")
    text = re.sub(r"\b0\.1\.0[.\w]*(\+[\w.]+)?", "VERSION", text)
    (target / name).write_bytes(text.encode(errors="backslashreplace"))


def _record_all(of: tuple[list[tuple[str, ...]], Path, Path]) -> None:
    for arguments in of[0]:
        record(arguments, of[1], of[2])


def compare(before: Path, after: Path) -> int:
    """Print which answers differ and where; how many."""
    names = sorted({path.name for folder in (before, after) for path in folder.iterdir()})
    differing = 0
    for name in names:
        sides = [folder / name for folder in (before, after)]
        if not all(side.exists() for side in sides):
            print(f"only {'before' if sides[0].exists() else 'after'}: {name}")
            differing += 1
        elif (texts := [side.read_bytes() for side in sides])[0] != texts[1]:
            differing += 1
            lines = [text.decode(errors="replace").splitlines() for text in texts]
            print(f"differs: {lines[0][0]}")
            changes = (
                line[:160]
                for line in difflib.unified_diff(*(side[:20_000] for side in lines), n=0, lineterm="")
                if line[:1] in "+-" and line[:3] not in ("+++", "---")
            )
            for _, line in zip(range(6), changes, strict=False):
                print(f"    {line}")
    print(f"{len(names)} answers, {differing} differ")
    return differing


def main() -> None:
    """Record answers, or compare two folders of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    recording = verbs.add_parser("record")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--only", default="", help="Calls that hold this text, a regular expression.")
    recording.add_argument("--sample", type=int, default=1, help="One call of so many.")
    recording.add_argument("--jobs", type=int, default=2)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    asked = parser.parse_args()
    if asked.verb == "compare":
        sys.exit(bool(compare(asked.before, asked.after)))
    root = Path(tempfile.gettempdir()) / "gpuledger-profiles"  # one place: names of files are part of answers
    known = profiles(root)
    groups = [[*calls(path)] for path in known] + [[*once(root)]]
    chosen = [[call for call in group if re.search(asked.only, " ".join(call))][:: asked.sample] for group in groups]
    asked.folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with context.Pool(asked.jobs, maxtasksperchild=8) as pool:
        for _ in pool.imap_unordered(_record_all, [(group, root, asked.folder) for group in chosen if group]):
            pass
    print(f"{len(list(asked.folder.iterdir()))} answers in {asked.folder}")


if __name__ == "__main__":
    main()
