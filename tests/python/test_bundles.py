"""Bundles as a Python program has them: added by a call, or in an installed package."""

import json
import os
import subprocess
import sys
import zipfile

import numpy
import pytest
from places import BUILD

import regard

MANIFEST = """
[build]
namespace = "te"
targets = ["cpu-avx2"]
output = ["bundle", "python"]
[[variants]]
problems = ["fwd fp32 b=1 h=1 s=24 d=61"]
"""
PROGRAM = """
import json, numpy, regard
q = numpy.ones((1, 24, 1, 61), "float32")
{before}
plan = regard.plan("fwd fp32 b=1 h=1 s=24 d=61")
o = numpy.empty_like(q)
plan.run(q=q, k=q, v=q, o=o)
assert (o == 1).all()
print(json.dumps(plan.json["stages"] if isinstance(plan.json, dict) else json.loads(plan.json)["stages"]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built")
    (folder / "te.toml").write_text(MANIFEST)
    done = subprocess.run(
        [BUILD / "regard", "build", "te.toml", "--output=.", "--json"], cwd=folder, check=True, capture_output=True
    )
    return {output["output"]: folder / output["path"] for output in json.loads(done.stdout)["outputs"]}


def run(before="", folder=None, **settings):
    alone = {"REGARD_JIT": "off", "REGARD_CACHE": "off", "REGARD_CPU_TARGET": "cpu-avx2"} | settings
    path = os.pathsep.join([str(folder)] * (folder is not None) + [os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before)],
        capture_output=True,
        text=True,
        env=os.environ | alone | {"PYTHONPATH": path},
    )
    return done.returncode, done.stdout and json.loads(done.stdout)[0]["tier"], done.stderr


def test_a_bundle_that_a_call_adds(built):
    assert run(f"regard.add_bundle({str(built['bundle'])!r})") == (0, "bundle", "")
    assert run()[1] == "built-in"  # the generic kernel
    later = f"regard.attention(q, q, q); regard.add_bundle({str(built['bundle'])!r})"
    assert run(later, REGARD_STRICT="on")[0] != 0


def test_a_bundle_that_is_no_bundle(tmp_path):
    with pytest.raises(regard.InvalidError, match="cannot be opened"):
        regard.add_bundle(tmp_path / "none")
    with pytest.raises(TypeError):
        regard.add_bundle(3)


def test_a_package_that_is_installed_is_found(built, tmp_path):
    wheel = zipfile.ZipFile(built["python"])
    assert wheel.testzip() is None
    wheel.extractall(tmp_path)
    assert run(folder=tmp_path) == (0, "bundle", "")
    (about,) = tmp_path.glob("*.dist-info")
    recorded = [line.partition(",")[0] for line in (about / "RECORD").read_text().splitlines()]
    assert sorted(recorded) == sorted(wheel.namelist())
    (tmp_path / "regard_bundle_te" / "te.bundle").write_bytes(b"no bundle")
    code, tier, said = run(folder=tmp_path)
    assert (code, tier) == (0, "built-in") and "the bundle of the package regard_bundle_te is not used" in said


def test_the_wheel_is_the_same_whenever_it_is_made(built, tmp_path):
    (tmp_path / "te.toml").write_text(MANIFEST)
    subprocess.run([BUILD / "regard", "build", "te.toml"], cwd=tmp_path, check=True, capture_output=True)
    again = tmp_path / "te-build" / built["python"].name
    assert again.read_bytes() == built["python"].read_bytes()


def test_what_is_computed_with_a_bundle_is_right(built):
    regard.add_bundle(built["bundle"])
    q = numpy.random.default_rng(1).standard_normal((2, 24, 2, 61), dtype="float32")
    o = regard.attention(q, q, q, target="cpu-avx2")
    assert regard.check("fwd fp32 b=2 h=2 s=24 d=61", q=q, k=q, v=q, o=o)["ok"]
