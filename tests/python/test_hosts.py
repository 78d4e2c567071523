"""Importing a front end without its library, or with one that is too old, gives a sentence on what to install."""

import json
import subprocess
import sys
import types

import pytest

from regard import hosts

FRONTS = {
    "regard.torch": "regard.torch needs PyTorch 2.9 or newer, which is not installed: pip install torch",
    "regard.flash_attn": "regard.flash_attn needs PyTorch 2.9 or newer, which is not installed: pip install torch",
    "regard.aiter": "regard.aiter needs PyTorch 2.9 or newer, which is not installed: pip install torch",
    "regard.flash_mla": "regard.flash_mla needs PyTorch 2.9 or newer, which is not installed: pip install torch",
    "regard.flashinfer": "regard.flashinfer needs PyTorch 2.9 or newer, which is not installed: pip install torch",
    "regard.vllm": "regard.vllm needs vLLM 0.32 or newer, which is not installed: pip install vllm",
    "regard.torch.transformers": "regard.torch.transformers needs transformers 5.10 or newer, which is not installed: "
    "pip install transformers",
    "regard.jax": "regard.jax needs JAX 0.9 or newer, which is not installed: pip install jax",
}


# One process, because each takes a second to start; a failed import leaves nothing behind.
IMPORTS = """
import json, sys
import regard
said = {}
for front, library in json.loads(sys.argv[1]).items():
    sys.modules[library] = None
    try:
        __import__(front)
    except ImportError as error:
        said[front] = f"{type(error).__name__}: {error}"
    del sys.modules[library]
    assert front not in sys.modules
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said():
    """What the import of each front says without its library."""
    libraries = {front: sentence.split()[-1] for front, sentence in FRONTS.items()}
    command = [sys.executable, "-c", IMPORTS, json.dumps(libraries)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("front", FRONTS)
def test_a_front_without_its_library(said, front):
    assert said[front] == "ImportError: " + FRONTS[front]


def require_host(monkeypatch, version):
    host = types.ModuleType("host")
    host.__version__ = version
    monkeypatch.setitem(sys.modules, "host", host)
    monkeypatch.setitem(hosts.HOSTS, "host", hosts.Host("Host", (1, 9), "upgrade it"))
    hosts.require("regard.host", "host")


@pytest.mark.parametrize("version", ["1.9.0", "1.10.0+cu130", "2.0.0.dev20270101"])
def test_a_library_that_is_new_enough(monkeypatch, version):
    require_host(monkeypatch, version)


@pytest.mark.parametrize("version", ["1.8.2", "0.10.0"])
def test_a_library_that_is_too_old(monkeypatch, version):
    with pytest.raises(ImportError, match=f"^regard.host needs Host 1.9 or newer, and this is {version}: upgrade it$"):
        require_host(monkeypatch, version)


def test_a_library_that_lacks_something_itself(monkeypatch, tmp_path):
    (tmp_path / "broken_host.py").write_text("import missing_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(hosts.HOSTS, "broken_host", hosts.Host("Host", (1, 9), "upgrade it"))
    with pytest.raises(ModuleNotFoundError, match="missing_dependency"):
        hosts.require("regard.host", "broken_host")
