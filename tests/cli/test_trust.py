"""Whose kernels are executed: with and without trusted keys, in the cache, in other users' folders, and with more
privileges than the user has."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest
import remote_server

from conftest import COMMAND, environment

PROBLEM = "fwd fp32 b=1 h=1 s=24 d=59"  # not compiled into the library
CPU = {"REGARD_CPU_TARGET": "cpu-avx2", "no_proxy": "*"}
NO_COMPILER = CPU | {"REGARD_JIT": "off"}
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """The files of private keys, and the public keys."""
    folder, made = tmp_path_factory.mktemp("keys"), {}
    for name in ("own", "other"):
        done = subprocess.run([COMMAND, "bundle", "keygen", folder / name], capture_output=True, text=True, check=True)
        made[name] = (str(folder / name), done.stdout.split()[-1])
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory, keys):
    """store["signed"] and store["unsigned"]: servers with the kernel; store["bundle"]: a bundle with it."""
    folder, made = tmp_path_factory.mktemp("store"), {}
    for name, signing in (("signed", {"REGARD_SIGNING_KEY": keys["own"][0]}), ("unsigned", {})):
        made[name] = remote_server.Store()
        settings = {
            "REGARD_REMOTE": made[name].url,
            "REGARD_REMOTE_WRITE": "on",
            "REGARD_CACHE_DIR": str(folder / name),
        }
        subprocess.run([COMMAND, "run", *PROBLEM.split()], env=environment(**CPU, **settings, **signing), check=True)
    made["bundle"] = folder / "kernels.bundle"
    settings = environment(**CPU, REGARD_CACHE_DIR=str(folder / "signed"))
    subprocess.run([COMMAND, "cache", "export", made["bundle"]], env=settings, check=True)
    yield made
    made["signed"].close()
    made["unsigned"].close()


@pytest.fixture
def stage(regard, tmp_path):
    """stage(...) makes a call with the test's own cache: where the kernel came from, and why not from elsewhere."""

    def run(**settings):
        done = regard("run", PROBLEM, "--json", **{"REGARD_CACHE_DIR": str(tmp_path / "cache")} | settings)
        assert done.code == 0, done.err
        plan = json.loads(done.out)["plan"]
        return plan["stages"][0]["tier"], plan.get("fallback_reason", "")

    return run


def test_what_was_fetched_without_keys_is_not_trusted_later(store, keys, stage, regard_json, tmp_path):
    own, other = keys["own"][1], keys["other"][1]
    assert stage(**NO_COMPILER, REGARD_REMOTE=store["unsigned"].url)[0] == "remote"
    assert stage(**NO_COMPILER)[0] == "cache"
    tier, why = stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)
    assert tier == "built-in" and "it was neither compiled here nor signed with a trusted key" in why
    there = {"REGARD_CACHE_DIR": str(tmp_path / "cache"), "REGARD_TRUSTED_KEYS": own}
    untrusted = [row for row in regard_json("cache list", **there) if row.get("trusted") is False]
    assert ["kernel" in row["manifest"] for row in untrusted] == [True]
    assert regard_json("list --tier=cache", **CPU, **there) == []
    # The signed kernel of the store replaces it.
    assert stage(**NO_COMPILER, REGARD_REMOTE=store["signed"].url, REGARD_TRUSTED_KEYS=own)[0] == "remote"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)[0] == "cache"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=f"{other},{own}")[0] == "cache"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=other)[0] == "built-in"
    (signed,) = [row["signed_by"] for row in regard_json("cache list", **there) if "signed_by" in row]
    assert signed == own


def test_who_signed_is_remembered_without_keys_too(store, keys, stage):
    assert stage(**NO_COMPILER, REGARD_REMOTE=store["signed"].url)[0] == "remote"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=keys["own"][1])[0] == "cache"


def test_what_is_compiled_here_is_trusted(store, keys, stage):
    own = keys["own"][1]
    assert stage(**NO_COMPILER, REGARD_REMOTE=store["unsigned"].url)[0] == "remote"
    assert stage(**CPU, REGARD_TRUSTED_KEYS=own)[0] == "compile"  # in its place
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)[0] == "cache"
    assert stage(**CPU, REGARD_TRUSTED_KEYS=own, REGARD_CXX="/dev/null/c++")[0] == "cache"


def test_an_import_says_who_signed_it(store, keys, stage, regard, regard_json, tmp_path):
    own, there = keys["own"][1], {"REGARD_CACHE_DIR": str(tmp_path / "cache")}
    assert regard_json("cache import", store["bundle"], **there)["kernels"] == 1
    assert stage(**NO_COMPILER)[0] == "cache"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)[0] == "built-in"
    answer = regard("cache export", "again.bundle", "--json", **there, REGARD_TRUSTED_KEYS=own)
    assert answer.code == 3 and "neither compiled here nor signed" in answer.err
    signed = tmp_path / "signed.bundle"
    shutil.copy(store["bundle"], signed)
    assert regard("bundle sign", signed, f"--key={keys['own'][0]}").code == 0
    assert regard_json("cache import", signed, **there)["kernels"] == 1
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)[0] == "cache"
    assert regard_json("cache import", store["bundle"], **there)["kernels"] == 1  # unsigned: the signed one stays
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=own)[0] == "cache"


def test_an_old_entry_is_not_known(stage, keys, tmp_path):
    """An entry whose header does not say where it comes from."""
    assert stage(**CPU)[0] == "compile"
    for path in (tmp_path / "cache").glob("*.regard"):
        data = bytearray(path.read_bytes())
        data[12:16] = bytes(4)
        path.write_bytes(data[:-32] + hashlib.sha256(data[:-32]).digest())
    assert stage(**NO_COMPILER)[0] == "cache"
    assert stage(**NO_COMPILER, REGARD_TRUSTED_KEYS=keys["own"][1])[0] == "built-in"
    assert stage(**CPU, REGARD_TRUSTED_KEYS=keys["own"][1])[0] == "compile"


def test_keys_for_which_anyone_can_sign_are_refused(refused, regard, store):
    for hex_of in ("00" * 32, "01" + "00" * 31, "ed" + "ff" * 30 + "7f"):
        assert hex_of in refused("run", PROBLEM, REGARD_TRUSTED_KEYS=hex_of)
        assert hex_of in refused("bundle verify", store["bundle"], f"--trusted={hex_of}")


@pytest.mark.parametrize("value", ["", " ", "\t", ",", ",,", "x", "/nowhere", "0" * 64, " " * 64])
def test_keys_that_are_none_do_not_switch_the_policy_off(value, refused, store):
    for words in (["run", PROBLEM], ["info"], ["bundle verify", store["bundle"]], ["cache import", store["bundle"]]):
        assert "REGARD_TRUSTED_KEYS" in refused(*words, REGARD_TRUSTED_KEYS=value), words


# Settings whose path may be created, or is looked up only when it is needed.
NOT_LOOKED_AT = {
    "REGARD_CACHE_DIR",
    "REGARD_CXX",
    "REGARD_HIP_CLANG",
    "REGARD_HIPRTC",
    "REGARD_NVRTC",
    "REGARD_SIGNING_KEY",
    "REGARD_SYMBOL_DIR",
}
# Settings whose unusable values give a warning; they are no policies.
WARNED_OF = {
    "REGARD_BUNDLE_PATH": "is not used",
    "REGARD_RECORD": "problems are not recorded",
    "REGARD_SAVE_CALLS": "a call is not saved",
}


@pytest.mark.parametrize("value", [" ", ",", "/dev/null/none"])
def test_a_setting_that_means_nothing_is_told(value, regard, regard_json):
    for name in {row["name"] for row in regard_json("info")["settings"]} - NOT_LOOKED_AT:
        if (name, value) == ("REGARD_RECORD", ","):
            continue  # a file name like any other
        done = regard("run fwd fp32 b=1 h=1 s=8 d=64 --repeat=0 --no-check", **CPU | {name: value})
        if name in WARNED_OF and value != " " and (name, value) != ("REGARD_SAVE_CALLS", ","):
            assert done.code == 0 and WARNED_OF[name] in done.err, (name, done)
        else:
            assert done.code == 2 and name in done.err and done.err.count("\n") == 1, (name, done)


@pytest.fixture
def open_bundle(store, tmp_path):
    """A bundle of another user, in that user's folder."""
    folder = tmp_path / "his"
    folder.mkdir()
    bundle = folder / "kernels.bundle"
    shutil.copy(store["bundle"], bundle)
    return bundle


def test_a_world_writable_bundle_is_refused(open_bundle, keys, stage, regard, refused):
    def run(**settings):
        done = regard("run", PROBLEM, "--json", **NO_COMPILER, REGARD_CACHE="off", **settings)
        return json.loads(done.out)["plan"]["stages"][0]["tier"], done.err

    assert run(REGARD_BUNDLE_PATH=open_bundle) == ("bundle", "")
    for path, mode, what in ((open_bundle, 0o646, "it"), (open_bundle.parent, 0o777, "its folder")):
        before = path.stat().st_mode
        path.chmod(mode)
        for named in (open_bundle, open_bundle.parent):
            tier, err = run(REGARD_BUNDLE_PATH=named)
            assert tier == "built-in" and f"is not used: {what} is world-writable (mode {mode:o})" in err
        printed = refused("run", PROBLEM, **NO_COMPILER, REGARD_BUNDLE=open_bundle)
        assert f"{what} is world-writable" in printed and "REGARD_TRUSTED_KEYS" in printed
        assert f"{what} is world-writable" in refused("cache import", open_bundle, code=3)
        assert regard("bundle list", open_bundle).code == regard("bundle verify", open_bundle).code == 0  # to look at
        path.chmod(before)
    assert regard("bundle sign", open_bundle, f"--key={keys['own'][0]}").code == 0
    open_bundle.parent.chmod(0o777)
    assert run(REGARD_BUNDLE_PATH=open_bundle, REGARD_TRUSTED_KEYS=keys["own"][1]) == ("bundle", "")


@needs_root
def test_a_bundle_of_another_user_is_told(open_bundle, keys, regard):
    os.chown(open_bundle, 12345, 12345)
    done = regard("run", PROBLEM, **NO_COMPILER, REGARD_BUNDLE_PATH=open_bundle)
    assert done.code == 0 and "are executed by user 0, although it belongs to user 12345; sign" in done.err
    assert regard("bundle sign", open_bundle, f"--key={keys['own'][0]}").code == 0
    done = regard("run", PROBLEM, **NO_COMPILER, REGARD_BUNDLE_PATH=open_bundle, REGARD_TRUSTED_KEYS=keys["own"][1])
    assert done.code == 0 and done.err == ""


@needs_root
def test_a_program_with_more_rights_than_its_user_leaves_the_environment_alone():
    folder = pathlib.Path(tempfile.mkdtemp())  # other users cannot enter the test's own folder
    folder.chmod(0o777)
    program, compiler = folder / "regard", folder / "c++"
    shutil.copy(COMMAND, program)
    os.chown(program, 12345, 12345)
    program.chmod(0o4755)
    compiler.write_text(f"#!/bin/sh\ntouch {folder}/was-run\nexit 1\n")
    compiler.chmod(0o755)
    given = {
        "REGARD_CXX": str(compiler),
        "REGARD_RECORD": f"{folder}/record",
        "REGARD_LOG": "all",
        "REGARD_CACHE_DIR": f"{folder}/cache",
        "XDG_CACHE_HOME": f"{folder}/xdg",
        "XDG_RUNTIME_DIR": f"{folder}/runtime",
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/tmp",
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    for name in ("cache", "xdg", "runtime", "home", "tmp"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)

    def run(user):
        return subprocess.run(
            [program, "run", *["fwd", "fp32", "b=1", "h=1", "s=24", "d=58"], "--repeat=0", "--json"],
            env=environment(**given),
            preexec_fn=lambda: (os.setgid(user), os.setuid(user)),
            capture_output=True,
            text=True,
            cwd="/",
        )

    def written():
        return sorted(path.relative_to(folder).parts[0] for path in folder.rglob("*") if path.is_file())

    try:
        done = run(12346)
        if "rights that its user lacks" not in done.stderr:
            pytest.skip("this file system has no setuid programs")
        assert done.returncode == 0, done
        printed = "this program has rights that its user lacks (setuid, setgid or capabilities), so the settings in"
        assert done.stderr.startswith(f"regard: {printed} its environment are ignored\n")
        assert written() == ["c++", "regard"]
        done = run(12345)  # without additional privileges it reads the environment
        assert done.returncode == 0 and {"record", "was-run"} <= set(written()), done
    finally:
        shutil.rmtree("/tmp/regard-12345", ignore_errors=True)
        shutil.rmtree(folder)
