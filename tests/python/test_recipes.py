"""The code of docs/recipes runs as written: Python blocks of a page as one program, shell blocks as one script."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import BUILD, ROOT

RECIPES = ROOT / "docs/recipes"
PAGES = [path.stem for path in sorted(RECIPES.glob("*.md")) if path.stem != "README"]
sys.path.insert(0, str(ROOT / "tests/cli"))
from remote_server import Store  # noqa: E402


def code(page, language):
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", (RECIPES / page).read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", PAGES)
def test_a_recipe(page, tmp_path, monkeypatch):
    python, shell = code(f"{page}.md", "python"), code(f"{page}.md", "sh")
    assert python or shell
    if python:
        pytest.importorskip("torch")
        monkeypatch.chdir(tmp_path)
        exec(compile(python, f"{page}.md", "exec"), {"__name__": page})
    if shell:
        store = Store()
        path = f"{BUILD}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        settings = {"PATH": path, "STORE": store.url, "REGARD_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", shell],
            cwd=tmp_path,
            env=os.environ | settings,
            capture_output=True,
            text=True,
            timeout=300,
        )
        store.close()
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_recipe_is_short_and_listed():
    listed = re.findall(r"^\| \[(.*?)\]\(\1\.md\)", (RECIPES / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == PAGES
    for page in PAGES:
        assert len((RECIPES / f"{page}.md").read_text().splitlines()) <= 60, page
