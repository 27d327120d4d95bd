"""Hooks of mkdocs: the navigation, and the pages of the site that lie outside docs/ or are made when it is built.

The navigation is docs/README.md, section by section: a page that is listed there is in the site, and nothing is listed
twice. From elsewhere come both READMEs, CONTRIBUTING, SECURITY and the changelog, a page for each finding in both
languages, and a gallery: pages that `gpuledger report` and `diff` write of captures in the repository.
`GPULEDGER_GALLERY=0` leaves those out.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import re
import runpy
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/gpuledger/gpuledger"
FINDINGS = "src/gpuledger/findings/explain"
MOVED = {
    "README.md": "index.md",
    "README.zh.md": "zh/index.md",
    "docs/README.md": "questions.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the repository that have another name in the site."""

GALLERY = (
    ("decode", "report", "decode.sqlite", "A decoder, 20 tokens, recorded by Nsight Systems", "解码器，20 个 token"),
    (
        "experts",
        "report",
        "experts_loop.sqlite",
        "Experts in a Python loop: launch-bound",
        "循环里的专家：launch 跟不上",
    ),
    ("serving", "report", "normal.sqlite", "Decode steps of an MoE server, eight ranks", "MoE 服务的解码步，八个 rank"),
    ("torch", "report", "decode.json.gz", "The same decoder, seen by torch.profiler", "同一个解码器，torch.profiler"),
    ("batched", "diff", "experts_loop.sqlite experts_batched.sqlite", "The experts, then batched", "专家批处理前后"),
)
"""Name, verb, captures, and what it shows in both languages."""

_LINK = re.compile(r'(\]\(|src=")(?!https?:|mailto:|#|data:)([^)#"\s]+)')
_ITEM = re.compile(r"(- |\d+\. )")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the navigation in place."""
    config.nav = nav((ROOT / "docs" / "README.md").read_text(encoding="utf-8"), codes())
    return config


def nav(questions: str, findings: list[str]) -> list[dict[str, Any]]:
    """The navigation: the sections of docs/README.md, those in Chinese apart, with what has no line there."""
    sections = re.split(r"^## (.+)$", questions, flags=re.MULTILINE)
    linked = {
        title: [
            {text: _place(posixpath.normpath(f"docs/{target}"))}
            for text, target in re.findall(r"\[([^\]]+)\]\(([^)#]+\.md)\)", body)
        ]
        for title, body in zip(sections[1::2], sections[2::2], strict=True)
    }
    chinese = [page for page in linked["Guides"] if next(iter(page.values())).endswith(".zh.md")]
    guides = [page for page in linked["Guides"] if page not in chinese]
    pages = [{code: f"findings/{code}.md"} for code in findings]
    pages_zh = [{code: f"zh/findings/{code}.md"} for code in findings]
    return [
        {"gpuledger": ["index.md", {"Which question, which command": "questions.md"}, {"Gallery": "gallery/index.md"}]},
        {"Guides": guides},
        {"Cases": linked["Cases"]},
        {"Concepts": linked["Concepts"]},
        {"Findings": ["findings/index.md", *pages]},
        {"Reference": linked["Reference"]},
        {"Project": [*linked["For contributors"], {"Security": "security.md"}, {"Changelog": "changelog.md"}]},
        {"中文": ["zh/index.md", *chinese, {"优化建议": ["zh/findings/index.md", *pages_zh]}]},
    ]


def codes() -> list[str]:
    """The findings that there are."""
    return sorted(path.stem for path in (ROOT / FINDINGS).glob("*.md"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    files.remove(files.src_uris["README.md"])
    for place, content in (pages() | reference() | gallery()).items():
        files.append(File.generated(config, place, content=content))
    return files


def reference() -> dict[str, str]:
    """The pages that are made from the code."""
    made = runpy.run_path(str(ROOT / "docs" / "generate.py"), run_name="generate")
    return {
        **{f"reference/{name}": text for name, text in made["pages"]().items()},
        **{f"schemas/{name}": text for name, text in made["answer_schemas"]().items()},
    }


def pages() -> dict[str, str]:
    """The Markdown of each page that comes from outside docs/, by its place in the site."""
    from gpuledger.findings.pages import page

    found = {place: (ROOT / name).read_text(encoding="utf-8") for name, place in MOVED.items()}
    for language, title in (("", "Findings"), ("zh/", "优化建议")):
        lines = [f"# {title}", ""]
        for code in codes():
            text = page(code, language.rstrip("/"))
            found[f"{language}findings/{code}.md"] = text
            heading = text.splitlines()[0].removeprefix("# ")
            lines.append(f"- [{heading}]({code}.md)")
        found[f"{language}findings/index.md"] = "\n".join(lines) + "\n"
    return found


def gallery() -> dict[str, str]:
    """Pages of real profiles in both languages, and the page that lists them."""
    lines = ["# Gallery", "", "Pages that gpuledger wrote of captures in its repository, as they are.", ""]
    lines += ["| what it shows | page | 中文 |", "|---|---|---|"]
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name, verb, captures, title, title_zh in () if os.environ.get("GPULEDGER_GALLERY") == "0" else GALLERY:
            profiles = [_unpacked(capture, Path(scratch)) for capture in captures.split()]
            for language in ("en", "zh"):
                found[f"gallery/{name}.{language}.html"] = _page(Path(scratch), verb, *profiles, f"--lang={language}")
            lines.append(f"| {title} | [{verb}]({name}.en.html) | [{title_zh}]({name}.zh.html) |")
    return found | {"gallery/index.md": "\n".join(lines) + "\n"}


def _unpacked(name: str, folder: Path) -> str:
    [capture] = (ROOT / "captures").glob(f"*/{name}*")
    content = capture.read_bytes()
    (folder / name).write_bytes(lzma.decompress(content) if capture.suffix == ".xz" else content)
    return str(folder / name)


def _page(folder: Path, *arguments: str) -> str:
    from gpuledger.cli.main import cli

    target = folder / "page.html"
    cli.main([*arguments, "--output", str(target), "--force", "--quiet"], standalone_mode=False)
    return target.read_text(encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """A page as it stands in the repository becomes one of the site."""
    return nested(relinked(markdown, page.file.src_uri))


def relinked(markdown: str, place: str) -> str:
    """Links from where a page lies in the repository, as links from where it is in the site; others lead to GitHub."""
    home, here = posixpath.dirname(_repository_path(place)), posixpath.dirname(place)

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(home, match[2]))
        if not (ROOT / target).exists() or target.startswith(("gallery/", "findings/")):
            return match[0]  # of a page that is made here; or broken, which mkdocs says
        place = _place(target)
        return match[1] + (place if place.startswith("https:") else posixpath.relpath(place, here or "."))

    return _LINK.sub(link, markdown)


def _place(target: str) -> str:
    """Where a file of the repository is in the site; its address at GitHub where it is not, or is a folder."""
    if (ROOT / target).is_dir():
        return f"{REPOSITORY}/tree/main/{target}"
    if target in MOVED:
        return MOVED[target]
    if target.startswith(f"{FINDINGS}/"):
        name = target.removeprefix(f"{FINDINGS}/")
        return f"zh/findings/{name.removeprefix('zh/')}" if name.startswith("zh/") else f"findings/{name}"
    if target.startswith("docs/") and not target.endswith(".py"):
        return target.removeprefix("docs/")
    return f"{REPOSITORY}/blob/main/{target}"


def _repository_path(place: str) -> str:
    """The other way round."""
    for name, moved in MOVED.items():
        if moved == place:
            return name
    if place.startswith(("findings/", "zh/findings/", "gallery/")):
        return place  # made here, with links from where they are
    return f"docs/{place}"


def nested(markdown: str) -> str:
    """What belongs to an item of a list, indented as Python-Markdown wants it: by four, whatever the item's mark is."""
    lines: list[str] = []
    offset, in_fence = 0, False
    for line in markdown.splitlines():
        bare = line.lstrip()
        indent = len(line) - len(bare)
        if bare and not in_fence and (item := _ITEM.match(line)):
            if lines and lines[-1].strip() and not offset:
                lines.append("")  # a list may follow a paragraph at once, there it may not
            offset = len(item[0])
        elif bare and offset and indent < offset and not in_fence:
            offset = 0 if not lines[-1].strip() else offset
        elif offset and indent >= offset:
            line = " " * 4 + line[offset:]
        in_fence ^= bare.startswith("```")
        lines.append(line)
    return "\n".join(lines) + "\n"
