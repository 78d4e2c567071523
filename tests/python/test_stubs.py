"""Types: the stubs exist, and strict checking of a small program passes, and fails where it should."""

import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import regard
from regard import _core, options

SAMPLE = """
import numpy
import regard

q = numpy.zeros((1, 8, 2, 16), numpy.float32)
o = regard.attention(q, q, q, causal=True, window=(4, 0))
o.sum()
results = regard.attention(q, q, q, lse=True)
lse = results[1]
lse.sum()
grads = regard.attention_backward(o, q, q, q, o, lse, causal=True)
text: str = regard.explain("fwd fp32 b=1 h=1 s=8 d=8")
report: dict[str, object] = regard.check(regard.Problem("fwd fp32"), q=q)
plan = regard.plan("fwd fp32 b=1 h=1 s=8 d=8", threads=2)
size: int = plan.workspace_bytes
plan.run(q=q, k=q, v=q, o=o, seed=3)
flops: float = plan.problem.flops
shape: tuple[int, ...] = plan.problem.tensors["q"].shape
"""


def check(folder, source):
    (folder / "sample.py").write_text(source)
    package = Path(regard.__file__).parent.parent
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "sample.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(package)},
        capture_output=True,
        text=True,
    )


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_typed_program_passes_strict_checking(tmp_path):
    result = check(tmp_path, SAMPLE)
    assert result.returncode == 0, result.stdout
    result = check(tmp_path, SAMPLE + "regard.attention(q, q, q, causul=True)\n")
    assert "causul" in result.stdout


def test_the_package_is_marked_as_typed():
    folder = Path(regard.__file__).parent
    assert (folder / "py.typed").exists()
    assert "class Plan" in (folder / "_core.pyi").read_text()


def test_options_are_the_library_s_tensors_and_words():
    """Options lists exactly what the library knows: no tensor or word is missing, none is invented."""
    words = {word["word"].partition("=")[0] for word in regard.words()}
    typed = set(options.Options.__annotations__)
    conveniences = {
        "causal",
        "target",
        "family",
        "threads",
        "functions",
        "stream",
        "window",
        "offset",
        "out",
        "dtype",
        "sink_tokens",
    }
    assert typed - conveniences <= words | set(_core.roles())
    given_otherwise = {
        "q",
        "k",
        "v",
        "o",
        "lse",
        "dropout_mask",
        "row_max",
        "grad_o",
        "grad_lse",
        "grad_q",
        "grad_k",
        "grad_v",
    }
    of_other_passes = {"slots", "partial_o", "partial_lse"}
    of_other_passes |= {role for role in _core.roles() if "captured" in role}  # tensors= has their names
    assert set(_core.roles()) - given_otherwise - {"grad_bias", "grad_sink"} - of_other_passes <= typed


def test_public_functions_are_documented():
    for name in regard.__all__:
        if inspect.isroutine(getattr(regard, name)) or inspect.isclass(getattr(regard, name)):
            assert inspect.getdoc(getattr(regard, name)), name


def options_of(documentation):
    """The names of the options that it lists, with the headings before them."""
    return re.findall(r"^  ((?:  )?)([^ ].*?):", documentation.partition("\nOptions:\n")[2], re.MULTILINE)


def test_help_has_the_options_with_their_shapes():
    every = [name for group in options.GROUPS for name in group.__annotations__]
    assert every == list(options.Options.__annotations__)
    of_caches = list(options.CacheOptions.__annotations__)
    for documentation, expected in (
        (regard.attention.__doc__, every),
        (regard.options.__doc__, every),
        (regard.attention_backward.__doc__, [name for name in every if name not in of_caches]),
        (regard.append.__doc__, [name for name in of_caches if name not in ("k_new", "v_new")]),
    ):
        assert [name for indented, name in options_of(documentation) if indented] == expected
    assert "lengths_k: Array. int32 [b]: " in regard.attention.__doc__


def test_help_begins_with_what_a_newcomer_looks_for():
    headings = [name for indented, name in options_of(regard.attention.__doc__) if not indented]
    assert headings == [group.__doc__ for group in options.GROUPS]
    assert headings[0] == "Which keys a query sees" and headings[-1].startswith("KV caches")
    assert regard.attention.__doc__.index("o = regard.attention(q, k, v, causal=True)") < 100


def test_append_takes_the_options_that_its_documentation_names():
    """Besides those of the cache: layout, dtype, target, family, threads, stream."""
    (line,) = [line for line in regard.append.__doc__.splitlines() if line.startswith("Other options")]
    named = re.findall(r"\w+", line.partition(":")[2])
    given = {
        "layout": "bhsd",
        "dtype": "bf16",
        "target": "cpu-generic",
        "family": "append",
        "threads": 1,
        "stream": None,
    }
    assert named == list(given)
    k, new = numpy.zeros((1, 1, 8, 32), "uint16"), numpy.ones((1, 1, 2, 32), "uint16")
    regard.append(k, k.copy(), new, new, lengths_k=numpy.array([3], "int32"), **given)
    assert k[0, 0, :, 0].tolist() == [0, 0, 0, 1, 1, 0, 0, 0]
