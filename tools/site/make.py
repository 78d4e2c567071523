"""Makes the site: the pages of docs/ and their neighbours, the API reference, and llms.txt.

make.py OUTPUT. Sphinx treats a link or an anchor that leads nowhere as an error. `regard` must be importable.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import api

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
# The sections of the site and their pages, in this order; a page that no section names is under "More".
SECTIONS = {
    "Begin": ["docs/python", "docs/c", "docs/cli", "docs/problem", "docs/semantics", "docs/glossary"],
    "Frameworks": [
        *("docs/torch", "docs/jax", "docs/flash_attn", "docs/transformers", "docs/vllm"),
        *("docs/aiter", "docs/flashinfer"),
    ],
    "Topics": [
        *("docs/kv-cache", "docs/mla", "docs/functions", "docs/function-gallery"),
        "docs/context-parallelism",
        *("docs/tuning", "docs/saved-calls", "docs/settings"),
    ],
    "Recipes and examples": ["docs/recipes/*", "examples/gallery/README", "examples/README", "examples/*/README"],
    "API reference": ["api/*"],
    "Kernels for a program": [
        "docs/build",
        "docs/bundles",
        "docs/cache",
        "docs/compile",
        "docs/remote",
        "docs/profiles",
    ],
    "Results": ["docs/results/*", "docs/benchmarks"],
    "More": ["*"],
}


def pages() -> list[Path]:
    """All pages of the repository that are part of the site, relative to its root."""
    found = [
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *ROOT.glob("C*.md"),
        ROOT / "SECURITY.md",
    ]
    return sorted(path.relative_to(ROOT) for path in found)


def with_links(text: str, page: Path, source: Path) -> str:
    """Takes over files that a page links to. Folders are not pages: their names stay, without a link."""

    def link(match: re.Match[str]) -> str:
        image, label, address = match.groups()
        path = address.partition("#")[0]
        if not path or re.match(r"\w+:", path):
            return match.group()
        target = (ROOT / page.parent / path).resolve()
        if target == ROOT / "README.md":
            return f"[{label}]({'../' * (len(page.parts) - 1)}index.md)"
        if target.is_dir():
            return label
        if target.suffix != ".md":
            copy = source / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(target, copy)
        return match.group()

    parts = re.split(r"(^```.*?^```|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("`") else LINK.sub(link, part) for part in parts)


def first_sentence(text: str) -> str:
    """The first sentence of a page's prose."""
    for block in re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split("\n\n"):
        block = re.sub(r"^#.*\n?", "", block, flags=re.MULTILINE).strip()
        if block and not block.startswith(("|", "<", "!", "-")):
            plain = LINK.sub(r"\2", " ".join(block.split()))
            return re.split(r"(?<=[.:])\s", plain)[0].rstrip(".:")
    return ""


def title(text: str) -> str:
    return re.search(r"^# (.*)", text, re.MULTILINE).group(1)


def table_of_contents(names: list[str]) -> tuple[str, dict[str, list[str]]]:
    left, sections = list(names), {}
    for section, patterns in SECTIONS.items():
        own = [name for pattern in patterns for name in left if Path(name).match(pattern) or pattern == "*"]
        sections[section] = list(dict.fromkeys(own))
        left = [name for name in left if name not in own]
    trees = [
        "```{toctree}\n:caption: " + section + "\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(own) + "\n```\n"
        for section, own in sections.items()
    ]
    return "\n".join(trees), sections


def main(output: Path) -> int:
    start = time.monotonic()
    source = output.parent / "site-source"
    shutil.rmtree(source, ignore_errors=True)
    texts = {str(page.with_suffix("")): (ROOT / page).read_text() for page in pages()}
    for name, text in texts.items():
        page = Path(f"{name}.md")
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        (source / page).write_text(with_links(text, page, source))
    texts |= api.pages(ROOT)
    (source / "api").mkdir()
    for name in [name for name in texts if name.startswith("api/")]:
        (source / f"{name}.md").write_text(texts[name])

    trees, sections = table_of_contents(sorted(texts))
    readme = (ROOT / "README.md").read_text()
    (source / "index.md").write_text(with_links(readme, Path("README.md"), source) + "\n" + trees)
    conf = Path(__file__).resolve().parent
    sphinx = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-E",
        "-j",
        "auto",
        "-c",
        conf,
        source,
        output,
    ]
    code = subprocess.run(sphinx).returncode

    lines = ["# Regard", "", f"> {first_sentence(readme)}.", ""]
    for section, own in sections.items():
        lines += [f"## {section}", ""]
        lines += [f"- [{title(texts[name])}]({name}.html): {first_sentence(texts[name])}" for name in own] + [""]
    (output / "llms.txt").write_text("\n".join(lines))
    size = sum(file.stat().st_size for file in output.rglob("*") if file.is_file() and ".doctrees" not in file.parts)
    print(f"{output}: {len(texts) + 1} pages, {size / 1e6:.1f} MB, made in {time.monotonic() - start:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
