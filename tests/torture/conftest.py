"""A separate place for each test, and the correct answer."""

import shutil
import subprocess
import sys

import pytest
from torture import HERE, NVRTC, ROOT_USER, Place


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture(scope="session")
def telling_nvrtc(tmp_path_factory):
    """An NVRTC that logs its compiles, as compiler.sh does for the host compiler."""
    if NVRTC is None:
        pytest.skip("no NVRTC here: ./dev setup installs it")
    made = tmp_path_factory.mktemp("nvrtc") / "libnvrtc.so"
    real = sorted(path for path in NVRTC.iterdir() if path.name.startswith(("libnvrtc.so.", "libnvrtc-builtins.so.")))
    options = ["-shared", "-fPIC", "-Wl,--no-as-needed", f"-Wl,-rpath,{NVRTC}"]
    subprocess.run(["cc", *options, "-o", made, HERE / "nvrtc.c", *real, "-ldl"], check=True)
    return made


@pytest.fixture
def place(request, tmp_path, store):
    """A place that uses the host compiler, or the one that the test's parameter names."""
    nvrtc = request.getfixturevalue("telling_nvrtc") if getattr(request, "param", "") == "nvrtc" else None
    made = Place(tmp_path / "plätze und mehr", store, nvrtc)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def right_on_cpu(tmp_path_factory, store):
    done = Place(tmp_path_factory.mktemp("right") / "place", store).run()
    assert (done.code, done.tier, done.warnings) == (0, "compile", []), (done.error, done.err)
    return done.bits


@pytest.fixture
def right(request, place):
    """The bits that every run of PROBLEM must give; nothing runs without a GPU."""
    return "ready" if place.nvrtc else request.getfixturevalue("right_on_cpu")


@pytest.fixture
def may_mount(request):
    """Root may mount. Others may do so in their own namespace, in which the test then runs."""
    if ROOT_USER:
        return
    inside = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("cannot mount anything: neither root nor user name spaces here")
    test = f"{request.path}::{request.node.name}"
    subprocess.run([*inside, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], check=True)
    pytest.skip("passed in a user name space")
