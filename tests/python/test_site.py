"""The site's API reference has everything that is public. `./dev site` checks the links and anchors of all pages."""

import importlib.util
import re

import pytest
from places import ROOT


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


def test_every_public_function_is_documented(api):
    made = api.pages(ROOT)
    for name in api.MODULES:
        if name == "regard.options" or f"api/{name}" not in made:  # it has no functions; the framework is not installed
            continue
        module = importlib.import_module(name)
        public = [each for each in module.__all__ if callable(getattr(module, each))]
        assert public and set(public) <= set(headings(made[f"api/{name}"])), name
        assert [each for each in public if not getattr(module, each).__doc__] == []
    assert "api/regard" in made


def test_every_front_end_is_in_the_reference(api):
    """All packages that list what is public."""
    folder = ROOT / "python/regard"
    packages = {file.parent for file in folder.rglob("__init__.py") if "__all__" in file.read_text()}
    names = {".".join(("regard", *package.relative_to(folder).parts)) for package in packages}
    elsewhere = {
        "regard.jax.parallel",
        "regard.flash_attn.cute",
    }  # regard.jax and regard.flash_attn have their functions
    assert names - elsewhere - {"regard.vllm"} == set(api.MODULES) - {"regard.options"}  # vLLM loads its own
