"""The site's API reference has everything that is public. `./dev site` checks the links and anchors of all pages."""

import importlib.util
import re

import pytest
from places import ROOT

import regard


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("site_api", ROOT / "tools/site/api.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def headings(page):
    return re.findall(r"^#{2,3} ([\w.]+)$", page, re.MULTILINE)


def test_every_function_and_type_of_the_header_has_a_heading(api):
    header = (ROOT / "include/regard/regard.h").read_text()
    functions = re.findall(r"^REGARD_API[^(]*?(\w+)\(", header, re.MULTILINE)
    types = set(re.findall(r"^typedef (?:enum|struct) (\w+)", header, re.MULTILINE))
    page = api.of_header(header)
    found = [name for name in headings(page) if name.startswith("regard_")]
    assert sorted(found) == sorted([*functions, *types])
    assert all(line in page for line in header.splitlines() if line.startswith("REGARD_API"))


@pytest.mark.parametrize("module", ["regard", "regard.torch", "regard.jax", "regard.distributed"])
def test_every_public_function_is_documented(api, module):
    module = regard if module == "regard" else pytest.importorskip(module)
    public = [name for name in module.__all__ if callable(getattr(module, name))]
    found = headings(api.of_module(module))
    assert public and set(public) <= set(found)
    for name in public:
        assert getattr(module, name).__doc__, name
