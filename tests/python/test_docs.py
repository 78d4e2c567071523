"""tools/check_docs.py finds broken links and lines that are too long."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).resolve().parents[2] / "tools/check_docs.py"


def problems(folder, text):
    (folder / "other.md").write_text("# A `heading` of this page\n")
    page = folder / "page.md"
    page.write_text(text)
    done = subprocess.run([sys.executable, CHECK, page], capture_output=True, text=True)
    assert done.returncode == bool(done.stdout) and not done.stderr
    return done.stdout.replace(f"{page}:", "").splitlines()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](other.md) [b](other.md#a-heading-of-this-page) [c](https://example.org/#x)", []),
        ("# Here\n[a](#here)", []),
        ("`[a](nowhere.md)`\n\n```\n[a](nowhere.md)\n```", []),
        ("\n[a](nowhere.md)", ["2: the link 'nowhere.md' leads nowhere: there is no file nowhere.md"]),
        ("[a](other.md#x)", ["1: the link 'other.md#x' leads nowhere: other.md has no heading 'x'"]),
        ("ä" * 120 + "\n| " + "x" * 120 + " |", []),
        ("x" * 121, ["1: has 121 columns, and may have 120"]),
        ("```\n" + "x" * 121 + "\n```", ["2: has 121 columns, and may have 120"]),
    ],
)
def test_what_is_wrong_with_a_page(tmp_path, text, found):
    assert problems(tmp_path, text) == found
