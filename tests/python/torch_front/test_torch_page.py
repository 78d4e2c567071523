"""The examples of docs/torch.md run as written, one after the other."""

import re

import pytest
from places import ROOT

torch = pytest.importorskip("torch")


def test_the_page_s_examples_run(tmp_path, monkeypatch):
    page = (ROOT / "docs/torch.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 7
    script = tmp_path / "page.py"  # a file, as torch.compile reads its source
    script.write_text("\n".join(blocks))
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "page"})
