"""A place for each test, and the answer that must come out."""

import shutil

import pytest
from torture import Place


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
