"""Whatever the state of the folder and the system: the call computes, and says in one line why nothing is kept."""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import subprocess
import time

import pytest
from torture import COMMAND, PROBLEM, ROOT_USER, each_compiler, libc


def expect_computed_each_time(place, right, *words, **settings):
    for _ in range(2):
        done = place.run("run", **settings)
        assert (done.code, done.bits, done.tier) == (0, right, "compile"), done.error
        (warning,) = done.warnings
        for word in words:
            assert word in warning
    return done


@contextlib.contextmanager
def small_disk(folder, kilobytes):
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={kilobytes}k,mode=700".encode()
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options) != 0:
        pytest.skip(f"cannot mount a small disk: {os.strerror(ctypes.get_errno())}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@each_compiler
def test_a_full_disk(may_mount, place, right):
    with small_disk(place.cache, 8):
        expect_computed_each_time(place, right, "No space left on device", str(place.cache), "REGARD_CACHE_DIR")
        assert place.files() == []


PREBUILD = ["prebuild", "--target=cpu-generic", "--profile=default", "--sample=1"]


def expect_not_kept(place, *words, **settings):
    """A command that fills the cache reports that it stays empty, also by its exit code."""
    done = place.cli(*PREBUILD, REGARD_BUILT_IN="off", **settings)
    assert done.returncode == 3, done.stdout + done.stderr
    (summary,) = done.stdout.splitlines()
    assert "1 compiled" in summary and "0 failed" in summary and "1 not kept: " in summary
    for word in words:
        assert word in summary
    done = place.cli(*PREBUILD, "--json", REGARD_BUILT_IN="off", **settings)
    (row,) = json.loads(done.stdout)
    assert done.returncode == 3 and row["tier"] == "compile"
    for word in words:
        assert word in row["not_kept"]


def test_prebuild_on_a_full_disk(may_mount, place):
    with small_disk(place.cache, 8):
        expect_not_kept(place, "No space left on device", str(place.cache), "REGARD_CACHE_DIR")
        assert place.files() == []


def test_prebuild_under_a_file_size_limit(place):
    binary = {"PADDING": "200000"}  # so that it is larger than its source
    assert place.cli(*PREBUILD, REGARD_BUILT_IN="off", **binary).returncode == 0
    # Enough for what the compiler reads and writes; manifests contain times, so their sizes differ by some bytes.
    limit = place.entry.stat().st_size - 100
    place.entry.unlink()
    limited = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # noqa: E731
    expect_not_kept(place, "File too large", preexec_fn=limited, **binary)


def test_prebuild_where_nothing_is_kept(place):
    expect_not_kept(place, "REGARD_CACHE=off", REGARD_CACHE="off")
    expect_not_kept(place, "is not used: it cannot be made", REGARD_CACHE_DIR="/proc/regard")
    place.cache.mkdir()
    place.cache.chmod(0o777)
    expect_not_kept(place, "can be written by others")
    place.cache.chmod(0o700)
    done = place.cli(*PREBUILD, REGARD_BUILT_IN="off")
    assert done.returncode == 0 and "not kept" not in done.stdout


def test_a_disk_that_others_filled_meanwhile_still_serves_what_is_there(may_mount, place, right):
    with small_disk(place.cache, 256):
        assert place.run().tier == "compile"
        filler = place.cache / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(1024))
        assert place.run().tier == "cache"
        place.entry.write_bytes(b"damaged")
        expect_computed_each_time(place, right, "No space left on device")
        filler.unlink()
        assert place.run().tier == "compile"
        assert place.run().tier == "cache"


def test_no_room_to_compile_in(may_mount, place):
    """The generic kernel runs instead; the reason is in the plan."""
    with small_disk(place.temporary, 4):
        done = place.run()
        assert (done.code, done.tier) == (0, "built-in")
        assert "No space left on device" in done.fallback


def as_nobody():
    os.setgid(12345)
    os.setuid(12345)


@pytest.mark.skipif(not ROOT_USER, reason="needs root to become another user, who may not write everywhere")
def test_a_folder_that_is_only_read(place, right, tmp_path_factory):
    assert place.run().tier == "compile"
    for path in place.folder.parents:  # so that the other user can reach it
        if path.owner() == "root" and path.is_relative_to(tmp_path_factory.getbasetemp().parent):
            path.chmod(0o755)
    for path in [place.folder, *place.folder.rglob("*")]:
        os.chown(path, 12345, 12345)
    place.cache.chmod(0o500)
    other = "fwd fp32 h=1 s=40 d=31 mask=causal"
    store = place.environment["STORE"]
    os.chmod(store, 0o777)
    os.chmod(os.path.dirname(store), 0o755)
    done = place.run("run", preexec_fn=as_nobody)
    assert (done.bits, done.tier, done.warnings) == (right, "cache", [])
    for _ in range(2):
        done = place.run("run", other, preexec_fn=as_nobody)
        assert done.tier == "compile"
        (warning,) = done.warnings
        assert "cannot write" in warning and "Permission denied" in warning
    place.cache.chmod(0o700)


def test_a_folder_that_cannot_be_made(place, right):
    (place.folder / "file").write_text("")
    expect_computed_each_time(
        place, right, "not used", "folder", REGARD_CACHE_DIR=str(place.folder / "file" / "kernels")
    )


def test_a_file_in_its_place(place, right):
    place.cache.write_text("")
    expect_computed_each_time(place, right, "is not a folder; remove it or set REGARD_CACHE_DIR")


def test_no_home(place, right):
    nowhere = {"REGARD_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": None}
    done = place.run("run", REGARD_CACHE="off", XDG_RUNTIME_DIR=place.folder, **nowhere)
    folder = done.lines[0]["info"]["cache"]["directory"]
    assert folder == f"/tmp/regard-{os.geteuid()}"
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # compiles without a cache take their slots there
    if os.path.exists(folder):
        pytest.skip(f"{folder} is in use here")
    try:
        for tier in ("compile", "cache"):
            done = place.run("run", **nowhere)
            assert (done.bits, done.tier, done.warnings) == (right, tier, [])
    finally:
        shutil.rmtree(folder)


def test_no_variable_but_the_cache(place):
    """The compiler is then found in a usual folder, and so must its parts be."""
    folder = str(place.cache)
    done = subprocess.run(
        [COMMAND, "run", *PROBLEM.split()], env={"REGARD_CACHE_DIR": folder}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(place.cache.glob("*.regard"))) >= 1


def test_a_home_that_is_not_there(place, right):
    home = place.folder / "no" / "höme"
    settings = {"REGARD_CACHE_DIR": None, "XDG_CACHE_HOME": None, "HOME": str(home)}
    assert place.run("run", **settings).tier == "compile"
    done = place.run("run", **settings)
    assert (done.bits, done.tier) == (right, "cache")
    assert len(list((home / ".cache" / "regard").glob("*.regard"))) == 1


@pytest.mark.parametrize("name", ["a b", "ä/ö ü", "日本語", "'quoted' \"twice\"", "-dash", "new\nline", "$HOME"])
def test_names_of_any_kind(place, right, name):
    folder = str(place.folder / name)
    temporary = place.folder / ("tmp " + name.replace("/", " "))
    temporary.mkdir()
    settings = {"REGARD_CACHE_DIR": folder, "TMPDIR": str(temporary)}
    for tier in ("compile", "cache"):
        done = place.run("run", **settings)
        assert (done.bits, done.tier, done.warnings) == (right, tier, [])
        assert done.lines[0]["info"]["cache"]["directory"] == folder


def limit_files(kilobytes):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, kilobytes * 1024))


def test_a_file_size_limit_is_no_signal(place, right):
    """At each limit the result is computed, by the compiled or the generic kernel, and the process survives."""
    place.run()
    size = place.entry.stat().st_size // 1024
    place.entry.unlink()
    tiers = set()
    for limit in (0, 1, 8, size - 1, size + 1, 16 * size):  # the compiler writes assembly, several times as large
        done = place.run("run", preexec_fn=limit_files(limit))
        assert done.code == 0 and done.error == ""
        assert done.tier != "compile" or done.bits == right
        assert len(done.warnings) <= 1
        tiers.add(done.tier)
        for path in place.entries:
            assert done.tier == "compile"
            path.unlink()
    assert tiers == {"built-in", "compile"}
    assert place.verb("gc")["litter"] == 0
    assert place.files() == []


def test_lines_on_a_stderr_that_nobody_reads_do_no_harm(place, right):
    place.cache.write_text("")  # so that there is something to report
    reader, writer = os.pipe()
    os.close(reader)
    process = place.start("run", preexec_fn=lambda: os.dup2(writer, 2))
    out, _ = process.communicate(timeout=60)
    os.close(writer)
    assert process.returncode == 0
    assert right in out


def test_a_clock_that_was_set_back(place, right):
    """From then on, all existing files have dates in the future."""
    assert place.run().tier == "compile"
    ahead = time.time() + 10 * 365 * 24 * 3600
    used, leftovers = place.entry, place.cache / f"{place.entry.name}.1.1.tmp"
    place.run("run", "fwd fp32 h=1 s=40 d=31 mask=causal")
    (unused,) = [path for path in place.entries if path != used]
    leftovers.write_bytes(b"of a killed process")
    for path in (used, unused, leftovers):
        os.utime(path, (ahead, ahead))
    done = place.run()
    assert (done.bits, done.tier, done.warnings) == (right, "cache", [])
    assert abs(used.stat().st_mtime - time.time()) < 60  # a hit corrects the date
    place.run("run", "fwd fp32 h=1 s=40 d=37 mask=causal", REGARD_CACHE_BYTES=str(2 * used.stat().st_size + 9999))
    assert not leftovers.exists()
    assert used.exists() and not unused.exists()  # an entry used since then is newer
    done = place.run("run", REGARD_LOCK_SECONDS="1")
    assert (done.bits, done.tier) == (right, "cache")
