"""What a build writes to its folder, and what it leaves alone there."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time
import zipfile

import pytest

from conftest import COMMAND, environment

PROBLEM = "fwd fp32 b=1 h=1 s=24 d=59"
MANIFEST = """
[build]
namespace = "{name}"
targets = ["cpu-avx2"]
output = {output}
[[variants]]
problems = ["{problem}"]
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The kernels that a build of the manifest has compiled, for the other builds."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "te.toml").write_text(MANIFEST.format(name="te", output='["bundle"]', problem=PROBLEM))
    subprocess.run([COMMAND, "build", "te.toml", "--output=out"], cwd=folder, env=environment(), check=True)
    return folder / "out" / "kernels"


@pytest.fixture
def manifest(tmp_path, kernels):
    """manifest(...) writes te.toml; its kernel is already compiled in the folder `out`."""
    (tmp_path / "out").mkdir()
    shutil.copytree(kernels, tmp_path / "out" / "kernels")

    def write(name="te", output=("bundle",), problem=PROBLEM, more=""):
        text = MANIFEST.format(name=name, output=json.dumps(list(output)), problem=problem)
        (tmp_path / "te.toml").write_text(text + more)

    return write


def contents(folder):
    """The contents of all files but the compiled kernels, the report and the manifest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "kernels" not in path.parts and path.name not in ("manifest.json", "te.toml")
    }


def test_files_of_others_stay(manifest, regard_json, tmp_path):
    manifest(output=["bundle", "python"])
    mine = {"link/a.c": b"1", "torch-2.0.whl": b"2", "s.bundle": b"3", "other.bundle/x": b"4", "lib/x.so": b"5"}
    for name, data in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "out" / "kernels").rename(tmp_path / "kernels")
    for _ in range(2):
        report = regard_json("build te.toml --output .")
        names = set(report["files"])
        assert names == {os.path.basename(output["path"]) for output in report["outputs"]} and len(names) == 2
        there = contents(tmp_path)
        assert there.keys() == mine.keys() | names
        assert {name: there[name] for name in mine} == mine
    assert json.loads((tmp_path / "manifest.json").read_text())["kept"] == 1


@pytest.mark.parametrize("name", ["te.bundle", "manifest.json"])
def test_a_file_that_no_build_has_made_is_not_replaced(manifest, refused, regard, tmp_path, name):
    manifest()
    place = tmp_path / "out" / name
    place.write_text('{"files": "mine"}')
    assert f"'out/{name}' is there, and no build has made it" in refused("build te.toml --output out")
    assert place.read_text() == '{"files": "mine"}' and len(os.listdir(tmp_path / "out")) == 2
    place.unlink()
    place.symlink_to(tmp_path / "elsewhere")
    assert "it is a link" in refused("build te.toml --output out")
    place.unlink()
    place.mkdir()
    assert "it is not a file" in refused("build te.toml --output out")
    assert not (tmp_path / "elsewhere").exists()


def test_links_are_not_followed(manifest, refused, tmp_path):
    manifest()
    (tmp_path / "out" / "kernels").rename(tmp_path / "elsewhere")
    (tmp_path / "out" / "kernels").symlink_to(tmp_path / "elsewhere")
    assert "'out/kernels' is a link" in refused("build te.toml --output out")


def test_what_a_build_reads_is_not_replaced(manifest, refused, tmp_path):
    manifest()
    (tmp_path / "te.toml").rename(tmp_path / "out" / "te.bundle")
    assert "'out/te.bundle': this build reads it" in refused("build out/te.bundle --output out")
    (tmp_path / "out" / "te.bundle").rename(tmp_path / "out" / "manifest.json")
    assert "'out/manifest.json': this build reads it" in refused("build out/manifest.json --output out")


def test_an_earlier_output_that_is_read_is_not_removed(manifest, regard_json, refused, tmp_path):
    manifest()
    (kernel,) = regard_json("build te.toml --output out")["kernels"]
    manifest("te2", more=f'[[binaries]]\nfile = "out/te.bundle"\nkey = "{kernel["kernel"]}"\n')
    assert "'out/te.bundle': this build reads it" in refused("build te.toml --output out")
    assert (tmp_path / "out" / "te.bundle").exists()


def test_outputs_of_another_namespace_go(manifest, regard_json, tmp_path):
    manifest(output=["bundle", "python"])
    regard_json("build te.toml --output out")
    manifest("te2", output=["python"])
    (wheel,) = regard_json("build te.toml --output out")["files"]
    assert wheel.startswith("regard_bundle_te2-") and list(contents(tmp_path / "out")) == [wheel]
    with zipfile.ZipFile(tmp_path / "out" / wheel) as archive:
        (about,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        version = regard_json("info")["version"]
        assert f"Requires-Dist: regard=={version}" in archive.read(about).decode().splitlines()


def test_a_report_that_leads_out_of_the_folder_removes_nothing(manifest, regard_json, tmp_path):
    manifest()
    report = {"files": ["../mine", str(tmp_path / "mine"), "linked/mine", "te.toml/../../mine", "./old"]}
    (tmp_path / "mine").write_text("")
    (tmp_path / "out" / "linked").symlink_to(tmp_path)
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(report))
    assert regard_json("build te.toml --output out")["files"] == ["te.bundle"]
    assert (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("resource_name", "most"),
    # With the lowest limits nothing can be compiled; with higher ones some output cannot be written.
    [("FSIZE", 4096), ("FSIZE", 1 << 16), ("NOFILE", 8), ("NOFILE", 10), ("NOFILE", 12), ("NOFILE", 14)],
)
def test_an_error_leaves_what_was_there(manifest, regard_json, tmp_path, resource_name, most):
    manifest(output=["bundle", "python"])
    regard_json("build te.toml --output out")
    before = contents(tmp_path / "out"), (tmp_path / "out" / "manifest.json").read_bytes()
    manifest("te2", output=["bundle", "python"], problem="fwd fp32 b=1 h=1 s=24 d=40")

    def limited():
        resource.setrlimit(getattr(resource, "RLIMIT_" + resource_name), (most, most))

    command = [COMMAND, "build", "te.toml", "--output=out"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), preexec_fn=limited, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 4, (done.returncode, done.stdout, done.stderr)
    assert (contents(tmp_path / "out"), (tmp_path / "out" / "manifest.json").read_bytes()) == before
    assert not (tmp_path / "out" / "kernels" / ".regard-outputs").exists()


def test_what_a_killed_build_has_left_is_replaced(manifest, regard_json, tmp_path):
    manifest()
    left = tmp_path / "out" / "kernels" / ".regard-outputs"
    (left / "link").mkdir(parents=True)
    (left / "te.bundle").write_text("half")
    assert regard_json("build te.toml --output out")["files"] == ["te.bundle"]
    assert not left.exists()


def interrupted(tmp_path, settings, begun, *options):
    """The output of a build that gets a signal once begun() is true."""

    def as_from_a_shell():  # the test runner may ignore the signal
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    process = subprocess.Popen(
        [COMMAND, "build", "te.toml", *options],
        cwd=tmp_path,
        env=environment(**settings),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_from_a_shell,
    )
    try:
        end = time.monotonic() + 30
        while not begun() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=5)
    finally:
        process.kill()
    assert process.returncode == -signal.SIGINT
    return printed


def test_a_build_that_is_interrupted_says_how_far_it_is(tmp_path):
    compiler, mark = tmp_path / "c++", tmp_path / "begun"
    compiler.write_text(
        f"#!/bin/sh\nif [ $1 = -v ]; then echo 'fake version 1.0 (build 7)'; exit; fi\ntouch {mark}; sleep 60\n"
    )
    compiler.chmod(0o755)
    (tmp_path / "te.toml").write_text(MANIFEST.format(name="te", output='["bundle"]', problem=PROBLEM))
    printed = interrupted(tmp_path, {"REGARD_CXX": str(compiler)}, mark.exists)
    assert printed == "regard: interrupted with 0 of 1 kernels built; the next build goes on from there\n"
    assert os.listdir(tmp_path / "te-build") == ["kernels"]


def test_a_manifest_of_very_many_kernels_is_interrupted(tmp_path):
    keys = ['dtype = ["bf16", "fp16", "fp32"]', 'mask = ["none", "causal"]', 'bias = ["none", "bh", "alibi"]']
    keys += [f"{key} = [true, false]" for key in ("dropout", "lse")] + [f"d = {list(range(1, 257))}"]
    targets = ["sm_80", "sm_90a", "cpu-avx2", "cpu-avx512"]
    table = "[[variants]]\n" + "\n".join(keys) + "\n"
    (tmp_path / "te.toml").write_text(f"[build]\ntargets = {targets}\n" + 8 * table)
    begin = time.monotonic()
    printed = interrupted(tmp_path, {}, lambda: time.monotonic() > begin + 0.3, "--check")
    assert printed == "regard: interrupted while the kernels of the manifest were looked for\n"
