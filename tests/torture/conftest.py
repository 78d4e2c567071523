"""A place for each test, and the answer that must come out."""

import shutil
import subprocess
import sys

import pytest
from torture import ROOT_USER, Place


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("compiled")


@pytest.fixture
def place(tmp_path, store):
    made = Place(tmp_path / "plätze und mehr", store)
    yield made
    shutil.rmtree(made.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def right(tmp_path_factory, store):
    """The bits that every run of PROBLEM must give."""
    done = Place(tmp_path_factory.mktemp("right") / "place", store).run()
    assert (done.code, done.tier, done.warnings) == (0, "compile", []), (done.error, done.err)
    return done.bits


@pytest.fixture
def may_mount(request):
    """Root may. Others may in a name space of their own, in which the test then runs."""
    if ROOT_USER:
        return
    inside = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("cannot mount anything: neither root nor user name spaces here")
    test = f"{request.path}::{request.node.name}"
    subprocess.run([*inside, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test], check=True)
    pytest.skip("passed in a user name space")
