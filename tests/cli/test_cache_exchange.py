"""The cache of one machine as a bundle, and into the cache of another."""

import json

import pytest

PROBLEM = "fwd fp32 b=1 h=1 s=24 d=61"
TARGET = {"REGARD_CPU_TARGET": "cpu-avx2"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("exchange")


@pytest.fixture
def exported(folder, regard, regard_json):
    bundle = folder / "cache.bundle"
    if not bundle.exists():
        there = {"REGARD_CACHE_DIR": str(folder / "first")}
        assert regard("run", PROBLEM, **TARGET, **there).code == 0
        assert regard_json("cache export", bundle, **there) == {"kernels": 1, "left_out": []}
    return bundle


def test_what_one_cache_has_another_gets(folder, exported, regard, regard_json):
    there = {"REGARD_CACHE_DIR": str(folder / "second")}
    assert regard_json("cache import", exported, **there) == {"kernels": 1, "left_out": []}
    done = regard("run", PROBLEM, "--json", **TARGET, **there, REGARD_JIT="off")
    (stage,) = json.loads(done.out)["plan"]["stages"]
    assert (done.code, stage["tier"]) == (0, "cache")
    assert regard("cache import", exported, **there).out == f"1 kernels taken from {exported}\n"
    (stage,) = json.loads(regard("run", PROBLEM, "--json", **TARGET, REGARD_BUNDLE_PATH=exported).out)["plan"]["stages"]
    assert stage["tier"] == "bundle"


def test_kernels_of_other_sources_are_left_out(folder, exported, regard_json, tmp_path):
    """A library whose kernels were changed since."""
    import shutil

    from places import ROOT

    for name in ("kernels", "targets", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / "data" / name)
    source = tmp_path / "data" / "kernels" / "arguments.h"
    source.write_text(source.read_text() + "// changed\n")
    settings = {"REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_DATA_DIR": str(tmp_path / "data")}
    answer = regard_json("cache import", exported, **settings)
    assert answer["kernels"] == 0 and "other sources" in answer["left_out"][0]["why"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("cache export", "cache export takes one file"),
        ("cache import a b", "cache import takes one file"),
        ("cache stat a", "cache stat takes no file; 'a' is one word too many"),
        ("cache import nothing", "the bundle nothing cannot be used: it cannot be opened"),
        ("cache export /dev/null/file", "/dev/null"),
    ],
)
def test_bad_words_and_files(refused, words, sentence):
    assert sentence in refused(words)


def test_a_cache_that_is_off_is_not_moved(exported, refused):
    assert "REGARD_CACHE=off" in refused("cache import", exported, code=3, REGARD_CACHE="off")
