"""docs/jax.md runs as written."""

import re
from pathlib import Path

import jax
import numpy

PAGE = Path(__file__).resolve().parents[3] / "docs/jax.md"


def test_the_page_runs():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 9
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["of_each"].shape == (2,) and names["grad_bias"].shape == (8, 256, 256)
    assert names["grad_slopes"].shape == (8,) and (names["grad_slopes"] != 0).all()
    expected = jax.nn.dot_product_attention(names["q"], names["k"], names["v"], is_causal=True)
    numpy.testing.assert_allclose(names["attend"](names["q"], names["k"], names["v"]), expected, atol=1e-5, rtol=1e-5)
