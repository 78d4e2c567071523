"""Checks the Markdown pages: no link is broken, and no line is longer than 120 columns.

check_docs.py [PAGE.md ...]; by default all pages. Tables, lines with a URL and generated parts may be longer.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages():
    found = [path for path in ROOT.rglob("*.md") if not path.relative_to(ROOT).parts[0].startswith((".", "build"))]
    return sorted(found)


def numbered_prose(text):
    """The lines that are not code, with their numbers."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, line


def anchor(heading):
    """The anchor that GitHub makes of a heading."""
    words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def anchors(page):
    return {anchor(line.lstrip("#")) for _, line in numbered_prose(page.read_text()) if line.startswith("#")}


def broken_links(page):
    for number, line in numbered_prose(page.read_text()):
        for link in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if re.match(r"\w+:", link):  # a URL
                continue
            name, _, place = link.partition("#")
            target = page.parent / name if name else page
            if not target.exists():
                yield f"{number}: the link '{link}' leads nowhere: there is no file {name}"
            elif place and place not in anchors(target):
                yield f"{number}: the link '{link}' leads nowhere: {target.name} has no heading '{place}'"


def long_lines(page):
    generated = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("<!-- generated from the code"):
            generated = True
        elif line.startswith("<!-- end of the generated part"):
            generated = False
        if len(line) > COLUMNS and not (generated or line.lstrip().startswith("|") or "://" in line):
            yield f"{number}: has {len(line)} columns, and may have {COLUMNS}"


def main(arguments):
    found = 0
    for page in [Path(argument) for argument in arguments] or pages():
        for problem in [*broken_links(page), *long_lines(page)]:
            print(f"{page}:{problem}")
            found += 1
    return found > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
