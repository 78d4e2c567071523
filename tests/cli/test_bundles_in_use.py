"""Bundles built from a manifest, from the build to a call that takes its kernel from one."""

import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time

import pytest
import remote_server
from places import BUILD

from conftest import COMMAND, environment

MANIFEST = """
[build]
namespace = "te"
targets = ["cpu-avx2"]
undeclared = "{undeclared}"
[[variants]]
problems = ["fwd fp32 b=1 h=2 s=40 d=59", "fwd fp32 b=1 h=2 s=40 d=40"]
"""
DECLARED = "fwd fp32 b=1 h=1 s=24 d=59"
UNDECLARED = "fwd fp32 b=1 h=1 s=24 d=60"
# The kernels of one target, without a compiler and without a cache.
ALONE = {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_JIT": "off", "REGARD_CACHE": "off"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bundles")


@pytest.fixture
def build(folder, regard_json):
    """build(undeclared) builds the manifest once for all tests, and returns the bundle."""

    def make(undeclared="jit"):
        output = folder / undeclared
        if not (output / "te.bundle").exists():
            (folder / f"{undeclared}.toml").write_text(MANIFEST.format(undeclared=undeclared))
            regard_json("build", folder / f"{undeclared}.toml", "--output", output)
        return str(output / "te.bundle")

    return make


def stages(done):
    assert done.code == 0, done.err
    return json.loads(done.out)["plan"]["stages"]


def test_a_build_tells_what_it_made(folder, build, regard_json):
    bundle = build()
    report = json.loads((folder / "jit" / "manifest.json").read_text())
    assert report["count"] == len(report["kernels"]) == 2 and report["failed"] == 0
    assert [kernel["bytes"] > 0 and kernel["seconds"] > 0 for kernel in report["kernels"]] == [True, True]
    (output,) = report["outputs"]
    assert output["path"] == bundle and output["bytes"] == os.path.getsize(bundle)
    listed = regard_json("bundle list", bundle)
    assert [row["kernel"] for row in report["kernels"]] == [row["name"] for row in listed["kernels"]]
    assert sorted(os.listdir(folder / "jit")) == ["kernels", "manifest.json", "te.bundle"]


def test_the_same_bytes_on_another_path_with_other_jobs(folder, build, regard_json):
    bundle = build()
    again = regard_json("build", folder / "jit.toml", "--output", folder / "elsewhere", "--jobs=1")
    assert again["kept"] == 0
    assert (folder / "elsewhere" / "te.bundle").read_bytes() == pathlib.Path(bundle).read_bytes()
    assert regard_json("build", folder / "jit.toml", "--output", folder / "elsewhere")["kept"] == 2


def test_a_call_takes_its_kernel_from_a_bundle(folder, build, regard, regard_json):
    bundle = build()
    (stage,) = stages(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE_PATH=bundle))
    assert (stage["tier"], stage["missed"]) == ("bundle", ["not built into the library"])
    (stage,) = stages(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE_PATH=f":{folder}/none:{folder}/jit"))
    assert stage["tier"] == "bundle"
    (stage,) = stages(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE=bundle, REGARD_BUILT_IN="off"))
    assert (stage["tier"], stage.get("missed")) == ("bundle", None)
    counters = json.loads(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE=bundle).out)["counters"]
    assert (counters["bundled"], counters["compiled"], counters["cached"]) == (1, 0, 0)
    assert {row["tier"] for row in regard_json("list --tier=bundle", REGARD_BUNDLE_PATH=bundle)} == {"bundle"}
    (printed,) = regard_json("info", REGARD_BUNDLE_PATH=bundle)["bundles"]
    assert (printed["kernels"], printed["path"], printed["title"], printed["undeclared"]) == (2, bundle, "te", "jit")


def test_a_bundle_has_more_than_one_call_took(build, regard_json):
    explained = regard_json("explain", UNDECLARED, REGARD_CPU_TARGET="cpu-avx2", REGARD_BUNDLE_PATH=build())
    (stage,) = explained["plan"]["stages"]
    assert stage["tier"] == "compile" and any("not in the bundle" in why for why in stage["missed"])
    assert "seconds" not in stage


@pytest.mark.parametrize("switch", ["on", "off"])
def test_a_kernel_that_was_not_declared(build, regard, refused, switch):
    settings = {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_JIT": switch}
    sentence = refused("run", UNDECLARED, code=3, **settings, REGARD_BUNDLE_PATH=build("error"))
    assert 'undeclared = "error"' in sentence and 'pass = "fwd", dtype = "fp32", d = 60 would add it' in sentence
    done = regard("run", UNDECLARED, "--json", **settings, REGARD_BUNDLE_PATH=build("portable"))
    (stage,) = stages(done)
    assert stage["tier"] == "built-in" and "cpu_generic_forward" in stage["kernel"]
    assert 'undeclared = "portable"' in json.loads(done.out)["plan"]["fallback_reason"]
    (stage,) = stages(regard("run", DECLARED, "--json", **settings, REGARD_BUNDLE_PATH=build("error")))
    assert stage["tier"] == "bundle"


@pytest.mark.parametrize(
    ("problem", "fields"),
    [
        ("fwd fp32 h=1 s=24 d=60 mask=causal", 'd = 60, mask = "causal"'),
        ("fwd fp32 h=1 sq=1 sk=24 d=60 mask=causal_top_left lse", 'd = 60, mask = "causal_top_left", lse = true'),
        ("fwd fp8 h=1 s=24 d=60", "d = 60"),  # which only the generic kernel supports
    ],
)
def test_what_is_to_be_declared_is_what_was_asked_for(build, refused, problem, fields):
    settings = {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_BUILT_IN": "off", "REGARD_BUNDLE_PATH": build("error")}
    sentence = refused("run", problem, code=3, **settings)
    assert f'a table [[variants]] with pass = "fwd", dtype = "{problem.split()[1]}", {fields} would add it' in sentence
    assert sentence.count("would add it") == 1


def test_a_function_is_to_be_declared_with_its_problem(build, refused):
    problem = "fwd fp32 b=1 h=1 s=24 d=60 keep=m[q//4,kv//4] tensors=m:bool[2]"
    settings = {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_BUILT_IN": "off", "REGARD_BUNDLE_PATH": build("error")}
    sentence = refused("run", problem, code=3, **settings)
    assert 'a table [[variants]] with problems = ["fwd fp32 ' in sentence
    assert f'{problem.partition("d=60 ")[2]}"] would add it' in sentence and sentence.count("would add it") == 1


def test_a_mask_that_hides_nothing_is_declared_with_the_mask(regard, regard_json, tmp_path):
    (tmp_path / "te.toml").write_text(
        '[build]\ntargets = ["cpu-generic"]\nundeclared = "error"\n'
        '[[variants]]\nrecipes = ["decode"]\ndtype = "fp32"\nd = 24\nmask = ["causal", "window"]\n'
    )
    regard_json("build te.toml")
    settings = {"REGARD_CPU_TARGET": "cpu-generic", "REGARD_JIT": "off", "REGARD_CACHE": "off"}
    for shape in (
        "sq=1 sk=300 mask=causal",
        "sq=2 sk=300 mask=causal",
        "s=2 mask=window:128,128",
        "s=2 mask=window:0,0",
    ):
        done = regard("run fwd fp32 hq=4 hk=2 d=24", shape, "--json", **settings, REGARD_BUNDLE="te-build/te.bundle")
        assert {stage["tier"] for stage in stages(done)} == {"bundle"}


def test_a_kernel_that_was_not_declared_is_not_fetched(build, refused):
    server = remote_server.Store()
    settings = {"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_REMOTE": server.url, "no_proxy": "*"}
    refused("run", UNDECLARED, code=3, **settings, REGARD_BUNDLE_PATH=build("error"))
    server.close()
    assert server.asked == []


def test_a_bundle_that_is_damaged_is_passed_over(build, regard, tmp_path):
    damaged = tmp_path / "damaged.bundle"
    bytes_of = bytearray(pathlib.Path(build()).read_bytes())
    for place in range(64, 4096):  # the header comes before, the index after
        bytes_of[place] ^= 1
    damaged.write_bytes(bytes_of)
    settings = ALONE | {"REGARD_BUNDLE_PATH": f"{damaged}:{build()}"}
    (stage,) = stages(regard("run", "fwd fp32 b=1 h=1 s=24 d=40", "--json", **settings))
    assert stage["tier"] == "bundle" and any("unusable" in why for why in stage["missed"])
    done = regard("run", DECLARED, **ALONE, REGARD_BUNDLE_PATH=damaged.with_suffix(".gone"))
    assert done.code == 0 and "is not used: it cannot be opened" in done.err


def test_a_bundle_named_by_itself_must_open(refused, tmp_path):
    assert "it cannot be opened" in refused("run", DECLARED, REGARD_BUNDLE=tmp_path / "none.bundle")


def test_only_trusted_bundles(build, regard, refused, tmp_path):
    signed = tmp_path / "signed.bundle"
    shutil.copy(build(), signed)
    public = regard("bundle keygen", tmp_path / "key").out.strip().split()[-1]
    assert regard("bundle sign", signed, f"--key={tmp_path / 'key'}").code == 0
    (stage,) = stages(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE=signed, REGARD_TRUSTED_KEYS=public))
    assert stage["tier"] == "bundle"
    sentence = refused("run", DECLARED, **ALONE, REGARD_BUNDLE=build(), REGARD_TRUSTED_KEYS=public)
    assert "is not to be used" in sentence and "sign" in sentence
    assert "is not a public key" in refused("run", DECLARED, REGARD_TRUSTED_KEYS="12")


def test_a_kernel_that_fails_fails_the_build(folder, build, regard, tmp_path):
    build()
    compiler = tmp_path / "c++"
    real = shutil.which("c++")
    refuses = 'if grep -qs " d = 59;" -- "$@"; then echo no such luck >&2; exit 1; fi'
    compiler.write_text(f'#!/bin/sh\n{refuses}\nexec {real} "$@"\n')
    compiler.chmod(0o755)
    output = tmp_path / "out"
    shutil.copytree(folder / "jit", output)  # from an earlier build
    shutil.rmtree(output / "kernels")
    done = regard("build", folder / "jit.toml", "--output", output, "--json", REGARD_CXX=str(compiler))
    report = json.loads(done.out)
    assert done.code == 3 and (report["failed"], report["outputs"]) == (1, [])
    (failed,) = (kernel for kernel in report["kernels"] if "failure" in kernel)
    assert "d=59" in failed["kernel"] and "no such luck" in failed["failure"]
    assert not (output / "te.bundle").exists() and (output / "manifest.json").exists()


def test_a_folder_that_cannot_be_used(folder, build, refused, tmp_path):
    build()
    manifest = folder / "jit.toml"
    output = tmp_path / "out"
    (output / "kernels").mkdir(parents=True, mode=0o700)
    output.joinpath("kernels").chmod(0o700)
    with open(output / "kernels" / "build.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("somebody")
        lock.flush()
        sentence = refused("build", manifest, "--output", output, code=3)
    assert "another build is at it, somebody" in sentence
    (tmp_path / "file").write_text("")
    assert "cannot build into" in refused("build", manifest, "--output", tmp_path / "file")
    assert os.listdir(output) == ["kernels"] and stat.S_ISREG((tmp_path / "file").stat().st_mode)


def binary_of(folder):
    """The only binary that a build has kept in its folder: after a header and a manifest, before a checksum."""
    (entry,) = (folder / "kernels").glob("*.regard")
    data = entry.read_bytes()
    manifest, payload = struct.unpack_from("<QQ", data, 48)
    return data[64 + manifest :][:payload]


def test_a_binary_that_somebody_else_made(regard, regard_json, refused, tmp_path):
    head = '[build]\ntargets = ["cpu-avx2"]\n'
    (tmp_path / "own.toml").write_text(head + f'[[variants]]\nproblems = ["{DECLARED}"]\n')
    (kernel,) = regard_json("build own.toml --output own")["kernels"]
    (listed,) = regard_json("build own.toml --list")["kernels"]
    (tmp_path / "vendor.so").write_bytes(binary_of(tmp_path / "own"))
    (tmp_path / "te.toml").write_text(head + f'[[binaries]]\nfile = "vendor.so"\nkey = "{kernel["kernel"]}"\n')
    report = regard_json("build te.toml --output te", REGARD_CXX="/dev/null/c++")  # nothing is compiled
    (made,) = report["kernels"]
    assert (report["from_files"], report["kept"]) == (1, 0)
    assert ": 0 compiled (the slowest in 0.0 s), 0 there before, 1 taken from files, 0 failed" in (
        regard("build te.toml --output te").out
    )
    assert (made["kernel"], made["bytes"]) == (kernel["kernel"], kernel["bytes"])
    (stage,) = stages(regard("run", DECLARED, "--json", **ALONE, REGARD_BUNDLE_PATH=tmp_path / "te"))
    assert stage["tier"] == "bundle"
    for data, why in (
        (b"\x7fELF " + listed["symbol"].encode(), "it is no binary for cpu-avx2: it is too short"),
        (listed["symbol"].encode() + bytes(64), "it is no binary for cpu-avx2: it is not an ELF file"),
        (pathlib.Path(BUILD, "libregard.so").read_bytes(), f"it has no function {listed['symbol']}"),
    ):
        (tmp_path / "vendor.so").write_bytes(data)
        report = json.loads(regard("build te.toml --output te --json").out)
        assert why in report["kernels"][0]["failure"] and report["from_files"] == 0
    (tmp_path / "vendor.so").unlink()
    assert "vendor.so" in refused("build te.toml --output te")


def test_a_build_that_was_interrupted_goes_on(folder, regard_json, tmp_path):
    dims = list(range(33, 57))
    (tmp_path / "te.toml").write_text(f'[build]\ntargets = ["cpu-avx2"]\n[[variants]]\ndtype = "fp32"\nd = {dims}\n')
    command = [COMMAND, "build", "te.toml", "--output=te", "--jobs=2", "--json"]
    process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
    kept = tmp_path / "te" / "kernels"
    while process.poll() is None and len(list(kept.glob("*.regard"))) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode != 0 and not list((tmp_path / "te").glob("*.bundle"))
    there = len(list(kept.glob("*.regard")))
    (tmp_path / "te.toml").write_text(
        f'[build]\ntargets = ["cpu-avx2"]\n[[variants]]\ndtype = "fp32"\nd = {dims[:2]}\n'
    )
    report = regard_json("build te.toml --output te")
    assert there >= 2 and report["failed"] == 0 and report["kept"] >= 1
    assert [output["output"] for output in report["outputs"]] == ["bundle"]


def test_a_rule_counts_for_the_targets_of_its_bundle(build, regard):
    settings = {"REGARD_CPU_TARGET": "cpu-generic", "REGARD_BUNDLE_PATH": build("error")}
    (stage,) = stages(regard("run", "fwd fp32 b=2 hq=4 hk=2 s=32 d=64 mask=causal", "--json", **settings))
    assert stage["tier"] in ("built-in", "cache", "compile")


def test_a_folder_that_cannot_be_read_is_no_secret(build, tmp_path):
    # Root can read every folder unless it drops these capabilities.
    bound = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o300)
    if subprocess.run([*bound, "ls", closed], capture_output=True, check=False).returncode == 0:
        pytest.skip("this user reads every folder")
    env = environment(**ALONE, REGARD_BUNDLE_PATH=f"{closed}:{build()}")
    done = subprocess.run([*bound, COMMAND, "run", DECLARED, "--json"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert stage["tier"] == "bundle" and any(
        f"the bundle {closed}: it cannot be read" in why for why in stage["missed"]
    )
    assert f"the bundle {closed} is not used: it cannot be read: Permission denied" in done.stderr


def test_more_bundles_than_a_process_may_have_files(build, regard, regard_json, tmp_path):
    for number in range(60):
        shutil.copy(build(), tmp_path / f"{number:02}.bundle")
    (tmp_path / "link.bundle").symlink_to(tmp_path / "00.bundle")
    settings = ALONE | {"REGARD_BUNDLE_PATH": f"{tmp_path}:{tmp_path}/07.bundle"}
    assert len(regard_json("info", **settings)["bundles"]) == 60
    command = ["sh", "-c", 'ulimit -n 32 && exec "$@"', "sh", COMMAND, "run", "--json"]
    done = subprocess.run([*command, DECLARED], capture_output=True, text=True, env=environment(**settings))
    assert done.returncode == 0 and "not used" not in done.stderr, done.stderr
    (stage,) = json.loads(done.stdout)["plan"]["stages"]
    assert stage["tier"] == "bundle"
    (stage,) = regard_json("explain", UNDECLARED, **settings | {"REGARD_JIT": "on"})["plan"]["stages"]
    (missed,) = (why for why in stage["missed"] if "bundle" in why)
    named = ", ".join(f"{tmp_path}/{number:02}.bundle" for number in range(3))
    assert missed == f"not in the bundles {named} and 57 others"


@pytest.mark.skipif(
    not pathlib.Path(COMMAND).with_name("regard_parts.o").exists(),
    reason="Python does not load a library with sanitizers",
)
def test_a_second_try_keeps_what_opens_and_warns_of_what_does_not(build, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    shutil.copy(build(), tmp_path / "a" / "good.bundle")
    (tmp_path / "b" / "bad.bundle").write_bytes(b"no bundle")
    code = """
import ctypes, resource, sys
library = ctypes.CDLL(sys.argv[1])
def listed():
    text = ctypes.c_char_p()
    status = library.regard_list(None, None, ctypes.byref(text))
    return status, (text.value or b"").count(b'"bundle"')
before = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
first = listed()
resource.setrlimit(resource.RLIMIT_NOFILE, before)
print(first[1], listed(), listed())
"""
    env = environment(REGARD_BUNDLE_PATH=f"{tmp_path}/a:{tmp_path}/b", REGARD_CACHE="off")
    command = [sys.executable, "-c", code, BUILD / "libregard.so"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.stdout == "0 (0, 2) (0, 2)\n", done.stderr
    folders, bad = done.stderr.splitlines()[:2], done.stderr.splitlines()[2:]
    assert [
        f"the bundle {tmp_path}/{name} is not used: it cannot be read: Too many" in line
        for name, line in zip("ab", folders, strict=True)
    ] == [True, True]
    assert len(bad) == 1 and f"the bundle {tmp_path}/b/bad.bundle is not used: it is shorter" in bad[0], bad
