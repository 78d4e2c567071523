"""The code of docs/flash_attn.md runs as written."""

import subprocess
import sys

import places
import pytest

pytest.importorskip("torch")


def test_the_code_of_the_page_runs():
    page = (places.ROOT / "docs/flash_attn.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    done = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True)
    assert done.returncode == 0 and len(blocks) == 4, done.stderr
