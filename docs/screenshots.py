"""Take the pictures of docs/screenshots again: `python docs/screenshots.py`; needs playwright and Chromium.

The pages are made from the captures of this repository, so that anybody gets the same pictures, but for the fonts.
`--matrix FOLDER` takes, of eight reports, whole pages at three widths, light, dark and as printed, to be looked at.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from click.testing import CliRunner
from playwright.sync_api import Browser, sync_playwright

from gpuledger.agents.profiles import AgentProfiles, AllowedFolders
from gpuledger.agents.report_tools import open_profile, timeline_picture
from gpuledger.cli.main import verb_named
from gpuledger.limits import DEFAULT_LIMITS

ROOT = Path(__file__).parent.parent
SHOTS = Path(__file__).parent / "screenshots"
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")


@dataclass(frozen=True, slots=True)
class Shot:
    """One picture: which page, which part of it, how wide, how tall, on which paper."""

    name: str
    page: str
    at: str = ""
    width: int = 1280
    height: int = 900
    scheme: str = "light"
    click: tuple[str, float] | None = None


WANTED = (
    Shot("decode-light", "decode", height=1040),
    Shot("decode-dark", "decode", height=1040, scheme="dark"),
    Shot("decode-390", "decode", width=390, height=1200),
    Shot("moe-steps", "moe", "steps", height=820, click=("#step-cursor svg.picture", 0.75)),
    Shot("moe-diff", "diff", height=980),
    Shot("fleet", "ranks", height=1000),
    Shot("layer", "layer", "roofline", height=900),
    Shot("tour-loader", "loader", height=1180),
    Shot("tour-decode", "served", height=900),
    Shot("tour-gemm", "gemm", height=900),
)


MATRIX = (
    *(
        f"nsys/{name}.sqlite.xz"
        for name in ("decode", "experts_loop", "graph", "metrics_llama", "zoo_node", "one_nccl")
    ),
    "serve/normal.sqlite.xz",
    "torch/decode.json.gz",
)
WIDTHS = (1440, 1024, 390)
PAPERS = (("light", "screen"), ("dark", "screen"), ("dark", "print"))
"""Colours that a reader prefers, and where the page goes: printed from the dark theme, it must be readable too."""


def write(verb: str, *arguments: object) -> None:
    """Run a verb in this process."""
    CliRunner().invoke(verb_named(verb), [str(each) for each in arguments], catch_exceptions=False)


def unpacked(name: str, folder: Path) -> Path:
    """A capture of this repository."""
    target = folder / Path(name).name
    target.write_bytes(lzma.decompress((ROOT / "captures" / f"{name}.xz").read_bytes()))
    return target


def make_pages(folder: Path) -> None:
    """All pages that are shown."""
    decode = unpacked("nsys/decode.sqlite", folder)
    moe, batched = (unpacked(f"nsys/{name}.sqlite", folder) for name in ("moe_loop", "moe_batched_gemm"))
    write("report", decode, "-o", folder / "decode.html")
    write("report", moe, "-o", folder / "moe.html")
    write("report", decode, f"--ncu={unpacked('ncu/layer.ncu-rep', folder)}", "-o", folder / "layer.html")
    write("diff", moe, batched, "-o", folder / "diff.html")
    for name in ("loader", "gemm"):
        write("report", ROOT / "captures" / "tour" / f"{name}_bad.json.gz", "-o", folder / f"{name}.html")
    served = (unpacked(f"serve/{name}.sqlite", folder) for name in ("low_latency", "graph"))
    write("diff", *served, "-o", folder / "served.html")
    spec = spec_from_file_location("gen_ranks", ROOT / "benchmarks" / "gen_ranks.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError("benchmarks/gen_ranks.py")
    ranks = module_from_spec(spec)
    sys.modules["gen_ranks"] = ranks
    spec.loader.exec_module(ranks)
    ranks.write_job(folder / "job", ranks=8, events=6 * 24 * 8 * 12, steps=12, late=5, packed=True)
    write("fleet", folder / "job", "--workers=0", "-o", folder / "ranks.html")


def take(shot: Shot, browser: Browser, folder: Path) -> None:
    """One picture."""
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, color_scheme=shot.scheme)
    page.goto((folder / f"{shot.page}.html").as_uri())
    if shot.at:  # a section, which may be folded
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    if shot.click is not None:
        selector, across = shot.click
        box = page.locator(selector).bounding_box()
        if box is not None:
            page.locator(selector).click(position={"x": box["width"] * across, "y": 60})
            page.evaluate("document.activeElement.blur()")
    if shot.at:
        page.evaluate("name => document.getElementById(name).scrollIntoView()", shot.at)
    page.wait_for_timeout(300)
    page.screenshot(path=SHOTS / f"{shot.name}.png")
    page.close()


def draw_agent_timeline(folder: Path) -> None:
    """What an agent sees of a step."""
    profiles = AgentProfiles(AllowedFolders([folder]), DEFAULT_LIMITS)
    unpacked("nsys/moe_batched_gemm.sqlite", folder)
    handle = open_profile(profiles, "moe_batched_gemm.sqlite").content["handle"]
    (SHOTS / "agent-timeline.png").write_bytes(timeline_picture(profiles, handle, step=20).picture or b"")


def take_matrix(browser: Browser, folder: Path, target: Path) -> None:
    """Whole pages of eight reports, three widths each, on three papers."""
    target.mkdir(parents=True, exist_ok=True)
    for capture in map(Path, MATRIX):
        name = "-".join(capture.with_suffix("").with_suffix("").parts)
        profile = (
            unpacked(str(capture.with_suffix("")), folder) if capture.suffix == ".xz" else ROOT / "captures" / capture
        )
        write("report", profile, "-o", folder / f"{name}.html")
        for width in WIDTHS:
            for scheme, medium in PAPERS:
                page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page.emulate_media(media=medium)
                page.goto((folder / f"{name}.html").as_uri())
                page.wait_for_timeout(300)
                paper = scheme if medium == "screen" else medium
                page.screenshot(path=target / f"{name}-{width}-{paper}.png", full_page=True)
                page.close()


def main() -> None:
    """All of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--matrix", type=Path, metavar="FOLDER", help="eight reports in all ways that a page is shown")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as play:
        folder = Path(name)
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = play.chromium.launch(executable_path=chromium, args=list(QUIET))
        if asked.matrix:
            take_matrix(browser, folder, asked.matrix)
        else:
            make_pages(folder)
            draw_agent_timeline(folder)
            for shot in WANTED:
                take(shot, browser, folder)
        browser.close()


if __name__ == "__main__":
    main()
