"""docs/design.md lists the functions from `regard.torch.attention` to the driver's launch: each is where the list says,
calls the next one, and there are at most 11."""

import re
import sys
from itertools import pairwise

import pytest
from places import ROOT

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402

STEP = re.compile(r"^\d+\. `([\w:]+)` in `([\w/.]+)`", re.MULTILINE)


def listed():
    page = (ROOT / "docs/design.md").read_text()
    return STEP.findall(page.partition("## The path of a call")[2].partition("The first call of a kind")[0])


def body(function, file):
    """From the definition's parentheses to the first line that closes it."""
    lines = (ROOT / file).read_text().splitlines()
    python = file.endswith(".py")
    name = rf"def {function}\(" if python else rf"(^|\s){re.escape(function)}\("
    begin = max(i for i, line in enumerate(lines) if re.search(name, line) and not line.startswith((" ", "//")))
    ends = (i for i in range(begin + 1, len(lines)) if (lines[i][:1].isalpha() if python else lines[i] == "}"))
    return "\n".join(lines[begin + 1 : next(ends)])


def test_each_function_calls_the_next():
    path = listed()
    assert 0 < len(path) <= 11
    for (function, file), (following, _) in pairwise(path):
        assert re.search(rf"\b{following.split(':')[-1]}\b", body(function, file)), f"{function} in {file}"


def test_two_functions_of_python_come_before_the_extension(monkeypatch):
    found = []

    class Calls:
        def again(self, *asked):
            frame = sys._getframe(1)
            while frame.f_code.co_filename.startswith(regard.__path__[0]):
                found.append(frame.f_code.co_name)
                frame = frame.f_back
            return known.again(*asked)

    q = torch.ones(1, 8, 2, 16)
    o = regard.torch.attention(q, q, q)
    known = regard.call._known
    monkeypatch.setattr(regard.call, "_known", Calls())
    assert (regard.torch.attention(q, q, q) == o).all()
    in_python = [function for function, file in listed() if file.endswith(".py")]
    assert found[::-1] == in_python == ["attention", "run_call"]
