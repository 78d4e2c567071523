"""The examples of the pages on Python run as written, one after the other."""

import re

import pytest
from places import ROOT

torch = pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("name", "least"), [("python", 5), ("torch", 8), ("transformers", 2), ("aiter", 2), ("functions", 2)]
)
def test_the_page_s_examples_run(name, least, tmp_path):
    if name == "transformers":
        pytest.importorskip("transformers")
    page = (ROOT / f"docs/{name}.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= least
    script = tmp_path / "page.py"  # a file, as torch.compile reads its source
    script.write_text("\n".join(blocks))
    exec(compile(script.read_text(), str(script), "exec"), {"__name__": "page"})
