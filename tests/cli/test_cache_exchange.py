"""The cache of one machine, exported as a bundle and imported into the cache of another."""

import hashlib
import json
import shutil
import struct
import subprocess

import pytest
from places import ROOT

from conftest import COMMAND, environment

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
    """A library whose kernels have changed since."""
    for name in ("kernels", "targets", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / "data" / name)
    source = tmp_path / "data" / "kernels" / "arguments.h"
    source.write_text(source.read_text() + "static_assert(true);\n")
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
    ],
)
def test_bad_words_and_files(refused, words, sentence):
    assert sentence in refused(words)


def test_a_place_that_takes_no_file(folder, exported, refused):
    assert "cannot write /dev/null/file" in refused(
        "cache export /dev/null/file", REGARD_CACHE_DIR=str(folder / "first")
    )


def test_nothing_is_not_exported(refused, tmp_path):
    (tmp_path / "full.bundle").write_bytes(b"what was there")
    sentence = refused("cache export full.bundle", code=3, REGARD_CACHE_DIR=str(tmp_path / "empty"))
    assert f"the cache {tmp_path}/empty has no kernel to export" in sentence
    assert (tmp_path / "full.bundle").read_bytes() == b"what was there"


@pytest.mark.scarce
def test_without_descriptors_nothing_is_exported(folder, exported, tmp_path):
    for files in range(4, 9):
        (tmp_path / "full.bundle").write_bytes(b"what was there")
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", COMMAND, "cache", "export", "full.bundle"]
        env = environment(REGARD_CACHE_DIR=str(folder / "first"))
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
        whole = done.returncode == 0 and (tmp_path / "full.bundle").stat().st_size > 1000
        kept = done.returncode == 4 and (tmp_path / "full.bundle").read_bytes() == b"what was there"
        assert whole or kept, (files, done)


def test_damage_is_told(folder, exported, regard, regard_json, tmp_path):
    shutil.copytree(folder / "first", tmp_path / "cache")
    there = TARGET | {"REGARD_CACHE_DIR": str(tmp_path / "cache")}
    assert regard("run", "fwd fp32 b=1 h=1 s=24 d=62", **there).code == 0
    largest = max((tmp_path / "cache").glob("*.regard"), key=lambda path: (path.stat().st_mtime, path.stat().st_size))
    data = bytearray(largest.read_bytes())
    data[-5000] ^= 1
    largest.write_bytes(data)
    done = regard("cache export", tmp_path / "a.bundle", "--json", **there)
    assert done.out, done.err
    answer = json.loads(done.out)
    assert (done.code, answer["kernels"]) == (1, 1)
    assert [one["damaged"] for one in answer["left_out"]] == [True]

    damaged = bytearray(exported.read_bytes())
    damaged[100] ^= 1  # a byte of the only kernel
    (tmp_path / "b.bundle").write_bytes(damaged)
    done = regard("cache import", tmp_path / "b.bundle", REGARD_CACHE_DIR=str(tmp_path / "other"))
    assert done.code == 1 and "is damaged: the checksum is wrong" in done.out and "0 kernels taken" in done.out


def test_a_cache_that_is_off_is_not_moved(exported, refused):
    assert "REGARD_CACHE=off" in refused("cache import", exported, code=3, REGARD_CACHE="off")


def replace_payload(cache, payload):
    """Replaces the payload of the kernel's entry, whose checksum is then right again."""
    path = max(cache.glob("*.regard"), key=lambda path: path.stat().st_size)
    data = path.read_bytes()
    manifest_bytes, payload_bytes = struct.unpack_from("<QQ", data, 48)
    start = len(data) - 32 - payload_bytes - manifest_bytes
    data = data[:56] + struct.pack("<Q", len(payload)) + data[64 : start + manifest_bytes] + payload
    path.write_bytes(data + hashlib.sha256(data).digest())
    return path


def test_an_import_takes_the_place_of_nothing_better(folder, exported, regard, regard_json, tmp_path):
    shutil.copytree(folder / "first", tmp_path / "broken")
    broken = {"REGARD_CACHE_DIR": str(tmp_path / "broken")}
    entry = replace_payload(tmp_path / "broken", b"\7")
    assert regard_json("cache export", "broken.bundle", **broken)["kernels"] == 1

    shutil.copytree(folder / "first", tmp_path / "sound")
    sound = {"REGARD_CACHE_DIR": str(tmp_path / "sound")}
    before = (tmp_path / "sound" / entry.name).read_bytes()
    for bundle, kernels in (("broken.bundle", 0), (exported, 1)):
        answer = regard_json("cache import", bundle, **sound)
        assert answer["kernels"] == kernels and len(answer["left_out"]) == 1 - kernels
        assert all("cannot be loaded" in one["why"] for one in answer["left_out"])
        assert (tmp_path / "sound" / entry.name).read_bytes() == before

    assert regard_json("cache import", exported, **broken) == {"kernels": 1, "left_out": []}
    done = regard("run", PROBLEM, "--json", **TARGET, **broken, REGARD_JIT="off")
    assert json.loads(done.out)["plan"]["stages"][0]["tier"] == "cache"
