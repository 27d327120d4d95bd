"""The layout of a page at three widths, in light and dark: every box in its place, the picture in its theme's colours.

What is compared is structure, not a stored picture: fonts and versions of Chromium move every line by a few pixels, and
a picture that allows for that misses a text that is cut. So every box is asked whether it is inside the page, whether
it holds its text, and whether it lies on another; of the picture, only whether it is drawn, and in which colours.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.pages.html_pages import page_of, reported
from support.pages.page_browser import Browser, Page, opened

WIDTHS = (390, 1024, 1600)
Unpacked = Callable[[str], Path]

PROBLEMS = """() => {
  const found = [];
  const told = (what, part) => found.push(`${what}: ${(part.textContent || part.className).trim().slice(0, 40)}`);
  const seen = (part) => part.checkVisibility() && part.getBoundingClientRect().width > 1;
  const boxed = (parts) => [...parts].filter(seen).map((part) => [part, part.getBoundingClientRect()]);
  const meet = (a, b, by) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > by
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > by;
  const scrolls = (part) => part.closest(".scroll, nav, .command");
  if (document.documentElement.scrollWidth > innerWidth) told("the page is too wide", document.body);
  for (const [part, box] of boxed(document.querySelectorAll("main *, header *, nav"))) {
    const isInside = box.left >= -0.5 && box.right <= innerWidth + 0.5;
    if (!isInside && !scrolls(part) && !part.closest("svg")) told("outside", part);
  }
  for (const cell of document.querySelectorAll("td, th, button, summary, .tile, h2, h3")) {
    const isCut = getComputedStyle(cell).textOverflow === "ellipsis";
    if (seen(cell) && !isCut && cell.clientWidth && cell.scrollWidth > cell.clientWidth + 1) told("runs over", cell);
  }
  const groups = "main, main section, .tools, .tl-tools, .top-findings, .cards, .tiles, header";
  for (const group of document.querySelectorAll(groups)) {
    const parts = boxed(group.children).filter(([part]) => getComputedStyle(part).position === "static");
    parts.forEach(([part, box], at) => {
      if (parts.slice(0, at).some(([, other]) => meet(box, other, 1))) told("overlaps", part);
    });
  }
  for (const picture of document.querySelectorAll("svg.picture")) {
    const around = picture.getBoundingClientRect(), texts = boxed(picture.querySelectorAll("text"));
    texts.forEach(([text, box], at) => {
      if (box.left < around.left - 1 || box.right > around.right + 1) told("cut", text);
      texts.slice(0, at).forEach(([, other]) => meet(box, other, 3) && told("on another text", text));
    });
  }
  return found;
}"""

COLOURS = """async (picture) => {
  const image = new Image();
  image.src = `data:image/png;base64,${picture}`;
  await image.decode();
  const { width: wide, height: tall } = image, canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [wide, tall];
  const pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const { data } = pen.getImageData(0, 0, wide, tall), paper = data.slice(0, 3);
  let same = 0, vivid = 0;
  for (let at = 0; at < data.length; at += 4) {
    const pixel = [data[at], data[at + 1], data[at + 2]];
    same += pixel.every((value, part) => Math.abs(value - paper[part]) < 6);
    vivid += Math.max(...pixel) - Math.min(...pixel) > 90;
  }
  return { paper: Math.max(...paper), same: same / (wide * tall), vivid: vivid / (wide * tall) };
}"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, unpacked: Unpacked, browser: Browser) -> Iterator[Page]:
    path = tmp_path_factory.mktemp("layout") / "decode.html"
    path.write_text(page_of(reported(unpacked("decode.sqlite"))))
    with opened(browser, path.as_uri()) as shown:
        yield shown


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_box_is_in_its_place(width: int, theme: str, page: Page) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    assert page.evaluate(PROBLEMS) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_screen_is_drawn_in_the_colours_of_its_theme(
    width: int, theme: str, page: Page, browser: Browser
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=theme)
    page.evaluate("scrollTo(0, 0)")
    picture = base64.b64encode(page.screenshot()).decode()
    with opened(browser, "about:blank") as blank:
        colours = blank.evaluate(COLOURS, picture)
    assert (colours["paper"] > 200) == (theme == "light")
    assert (colours["paper"] < 70) == (theme == "dark")
    assert 0.4 < colours["same"] < 0.97
    assert colours["vivid"] > 0.005


def test_a_box_that_is_out_of_place_is_found(page: Page) -> None:
    """What the layout is asked finds what it is asked for."""
    page.set_viewport_size({"width": 1024, "height": 900})
    page.evaluate("document.querySelector('main section').style.marginLeft = '900px'")
    page.evaluate("document.querySelectorAll('svg.picture text')[1].setAttribute('x', '-50')")
    found = page.evaluate(PROBLEMS)
    page.evaluate("document.querySelector('main section').style.marginLeft = ''")
    assert any(problem.startswith("outside") for problem in found)
    assert any(problem.startswith("cut") for problem in found)
