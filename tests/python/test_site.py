"""The site's API reference has everything that is public. `./dev site` checks the links and anchors of all pages."""

import importlib.util
import inspect
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


OWN = ("regard", "regard.torch", "regard.torch.transformers", "regard.jax", "regard.distributed")


def own_functions(api):
    """Those of Regard itself. The fronts with the names of other libraries have the arguments of their functions."""
    for name in OWN:
        if name == "regard" or importlib.util.find_spec(name.rpartition(".")[2]) or name == "regard.distributed":
            module = importlib.import_module(name)
            for each in map(module.__dict__.get, module.__all__):
                if inspect.isfunction(each):
                    yield f"{name}.{each.__name__}", each


def test_help_says_arguments_results_and_errors(api):
    for name, function in own_functions(api):
        text, signature = inspect.getdoc(function), inspect.signature(function)
        assert re.search(r"\bRaises\b", text), name
        if signature.return_annotation not in ("None", None):
            assert re.search(r"\b(Returns?|Yields|results?|report|dict)\b", text), name
        # An argument that another function has too may be explained there.
        refers = re.search(r"`(\w+\.)*\w+`", text)
        unnamed = [each for each in signature.parameters if each != "options" and not re.search(rf"\b{each}\b", text)]
        assert refers or not unnamed, (name, unnamed)


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
