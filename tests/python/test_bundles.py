"""Bundles in a Python program: added by a call, or from an installed package."""

import json
import os
import shutil
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


def test_a_bundle_that_is_deleted_after_it_was_added(built, tmp_path):
    copy = shutil.copy(built["bundle"], tmp_path / "te.bundle")
    gone = f"import os; regard.add_bundle({str(copy)!r}); os.remove({str(copy)!r})"
    code, tier, said = run(f"{gone}; regard.attention(q, q, q); regard.attention(q[:, :9], q, q)")
    assert (code, tier) == (0, "built-in")
    assert said.count(f"a kernel of the bundle {copy} cannot be used, and is taken from elsewhere") == 1, said


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


def package(folder, name, source, entry_points):
    """A package as in site-packages; without source its module is missing."""
    if source is not None:
        (folder / f"{name}.py").write_text(source)
    about = folder / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_bytes(entry_points)


def entry(name, value):
    return f"[regard.bundles]\n{name} = {value}:bundle\n".encode()


def test_what_is_wrong_with_one_package_is_a_warning_and_the_others_are_used(built, tmp_path):
    zipfile.ZipFile(built["python"]).extractall(tmp_path)
    package(tmp_path, "a_is_no_text", "", b"[regard.bundles]\n\xff\xfe = 1\n")
    package(tmp_path, "a_has_no_value", "", b"[regard.bundles]\na line without\n")
    package(tmp_path, "a_exits", "import sys; sys.exit(3)", entry("a_exits", "a_exits"))
    package(tmp_path, "a_raises", "raise OSError('no\\nway')", entry("a_raises", "a_raises"))
    package(tmp_path, "a_is_gone", None, entry("a_is_gone", "a_is_gone"))
    package(tmp_path, "a_has_none", "bundle = None", entry("a_has_none", "a_has_none"))
    package(tmp_path, "a_has_the_same_name", "bundle = '/nowhere'", entry("regard_bundle_te", "a_has_the_same_name"))
    package(tmp_path, "a_calls", "import regard; regard.info(); bundle = '/calls'", entry("a_calls", "a_calls"))
    package(tmp_path, "a_has_other_entries", "", b"[console_scripts]\nno value\n")
    code, tier, said = run(folder=tmp_path)
    assert (code, tier) == (0, "bundle"), said
    warnings = [line for line in said.splitlines() if "regard: " in line]
    assert len(warnings) == 8, said
    for name in ("a_is_no_text", "a_has_no_value", "a_exits", "a_raises", "a_is_gone", "a_has_none", "/calls"):
        assert sum(name in line for line in warnings) == 1, (name, said)
    assert sum("/nowhere" in line for line in warnings) == 1
    assert any("SystemExit: 3" in line for line in warnings) and any("no\\nway" in line for line in warnings)


def test_bundles_are_looked_for_again_after_ctrl_c(built, tmp_path):
    zipfile.ZipFile(built["python"]).extractall(tmp_path)
    source = (
        "import builtins\nif not hasattr(builtins, 'asked'):\n    builtins.asked = True\n    raise KeyboardInterrupt\n"
    )
    package(tmp_path, "a_waits", source + "bundle = '/waits'", entry("a_waits", "a_waits"))
    before = "try: regard.info()\nexcept KeyboardInterrupt: pass\nelse: raise SystemExit(5)"
    code, tier, said = run(before, folder=tmp_path)
    assert (code, tier) == (0, "bundle") and "/waits" in said


def test_a_finder_of_packages_that_fails_is_a_warning(built, tmp_path):
    before = "import importlib.metadata\nimportlib.metadata.distributions = lambda: 1 / 0"
    code, tier, said = run(before)
    assert (code, tier) == (0, "built-in") and said.count("ZeroDivisionError") == 1


def test_a_bundle_in_an_archive_says_so(built):
    code, tier, said = run(folder=built["python"])
    assert (code, tier) == (0, "built-in") and "it is inside an archive: unpack the package" in said


def test_a_package_that_is_installed_forbids_nothing(tmp_path):
    manifest = MANIFEST.replace("[build]", '[build]\nundeclared = "error"').replace("d=61", "d=62")
    (tmp_path / "te.toml").write_text(manifest)
    done = subprocess.run(
        [BUILD / "regard", "build", "te.toml", "--output=.", "--json"], cwd=tmp_path, check=True, capture_output=True
    )
    wheel = next(output["path"] for output in json.loads(done.stdout)["outputs"] if output["output"] == "python")
    zipfile.ZipFile(tmp_path / wheel).extractall(tmp_path)
    code, tier, said = run(folder=tmp_path)
    assert (code, tier) == (0, "built-in") and "undeclared" not in said
    named = "import regard_bundle_te; regard.info(); regard.add_bundle(regard_bundle_te.bundle)"
    code, _, said = run(named, folder=tmp_path)
    assert code != 0 and "RefusedError" in said and 'undeclared = "error"' in said


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
