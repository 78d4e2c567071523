"""A change that affects the binary misses the cache; any other hits."""

import shutil
import subprocess

import pytest
from places import ROOT
from torture import HERE, LIBRARY, OTHER, PROBLEM

HEADER = "kernels/cpu/softmax.h"
KERNEL = "kernels/cpu/forward.cpp"


@pytest.fixture
def sources(place):
    """A copy of the library's embedded data, which a test can change."""
    folder = place.folder / "data"
    for name in ("kernels", "targets", "profiles"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def change(path, old, new):
    text = path.read_text()
    assert old in text, path
    path.write_text(text.replace(old, new, 1))


def test_the_same_sources_elsewhere_hit(place, sources, right):
    assert place.run().tier == "compile"
    done = place.run("run", REGARD_DATA_DIR=str(sources))
    assert (done.bits, done.tier) == (right, "cache")
    moved = sources.rename(place.folder / "moved data")
    assert place.run("run", REGARD_DATA_DIR=str(moved)).tier == "cache"
    for path in moved.rglob("*"):
        path.touch()  # dates do not matter
    assert place.run("run", REGARD_DATA_DIR=str(moved)).tier == "cache"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        (HEADER, "#pragma once", "#pragma once\n#define ANOTHER"),
        (KERNEL, "namespace", "static_assert(true);\nnamespace"),
        ("kernels/arguments.h", "#pragma once", "#pragma once\nstatic_assert(true);"),
    ],
)
def test_a_changed_header_or_kernel_misses(place, sources, right, name, old, new):
    assert place.run().tier == "compile"
    change(sources / name, old, new)
    settings = {"REGARD_DATA_DIR": str(sources)}
    for tier in ("compile", "cache"):
        done = place.run("run", **settings)
        assert (done.bits, done.tier) == (right, tier)
    assert place.compiles == 2
    change(sources / name, new, old)
    assert place.run("run", **settings).tier == "cache"  # the first entry is still there


def test_another_comment_hits(place, sources, right):
    assert place.run().tier == "compile"
    change(sources / KERNEL, "namespace", "// a remark\n\nnamespace")
    change(sources / "kernels/arguments.h", "#pragma once", "#pragma once\n")
    done = place.run("run", REGARD_DATA_DIR=str(sources))
    assert (done.bits, done.tier) == (right, "cache")


def test_arguments_of_another_layout_are_refused(place, sources):
    change(sources / "kernels/arguments.h", "struct Arguments {", "struct Arguments {\n  i64 another;")
    done = place.run("run", REGARD_DATA_DIR=str(sources), REGARD_STRICT="1")
    assert "kernels/arguments.h in REGARD_DATA_DIR is not that of the library" in done.error


def test_a_changed_option_misses(place, sources, right):
    done = place.run()
    (target,) = {done.plan["target"]}
    change(sources / "targets" / f"{target}.toml", "options = [", 'options = ["-DNOTHING",')
    settings = {"REGARD_DATA_DIR": str(sources)}
    assert [place.run("run", **settings).tier for _ in range(2)] == ["compile", "cache"]
    assert place.run().tier == "cache"


def test_another_target_misses(place):
    tiers = [place.run("run", REGARD_CPU_TARGET=target).tier for target in ("cpu-avx2", "cpu-generic") * 2]
    assert tiers == ["compile", "compile", "cache", "cache"]


def test_another_build_of_the_compiler_misses(place, right):
    for build, tier in (("1", "compile"), ("2", "compile"), ("2", "cache"), ("1", "cache")):
        done = place.run("run", BUILD=build)
        assert (done.bits, done.tier) == (right, tier)
    # The same compiler under another path is the same compiler.
    other = place.folder / "another g++"
    shutil.copy(place.environment["REGARD_CXX"], other)
    assert place.run("run", REGARD_CXX=str(other)).tier == "cache"


def test_a_library_that_was_moved_copied_or_reinstalled_hits(place, right):
    assert place.run().tier == "compile"
    first = place.folder / "prefix ä" / "lib"
    first.mkdir(parents=True)
    library = shutil.copy(LIBRARY, first / "libregard.so.0")
    assert place.run("run", library=library).tier == "cache"
    moved = (first.parent).rename(place.folder / "moved") / "lib" / "libregard.so.0"
    assert place.run("run", library=moved).tier == "cache"
    moved.unlink()
    shutil.copy(LIBRARY, moved)  # reinstalled: another file, another date
    done = place.run("run", library=moved)
    assert (done.bits, done.tier, place.compiles) == (right, "cache", 1)


def test_a_library_that_was_rebuilt_hits(place, right):
    """Another build of the same sources: the bytes of the library differ, those of the kernels do not."""
    assert place.run().tier == "compile"
    rebuilt = place.folder / "libregard.so.0"
    subprocess.run(["strip", "-o", rebuilt, LIBRARY], check=True)
    assert rebuilt.read_bytes() != LIBRARY.read_bytes()
    done = place.run("run", library=rebuilt)
    assert (done.bits, done.tier) == (right, "cache")


@pytest.mark.parametrize("wrapped", [False, True], ids=["itself", "behind a wrapper"])
def test_a_compiler_that_is_replaced_in_mid_process(place, right, wrapped):
    """It changes while it compiles the first kernel, which is used but not kept; the next is kept under the new
    compiler."""
    compiler, newer, wrapper = (place.folder / name for name in ("c++", "newer", "wrapper"))
    text = (HERE / "compiler.sh").read_text()
    replaces = f'[ ! -e "{newer}" ] || mv "{newer}" "{compiler}"\n'
    compiler.write_text(text.replace('echo "start', replaces + 'echo "start', 1))
    newer.write_text(text.replace("version 1", "version 2"))
    wrapper.write_text(f'#!/bin/sh\nexec "{compiler}" "$@"\n')
    for path in (compiler, newer, wrapper):
        path.chmod(0o700)
    done = place.run("loop", PROBLEM, OTHER, REGARD_CXX=wrapper if wrapped else compiler)
    assert [line["plan"]["stages"][0]["tier"] for line in done.lines] == ["compile"] * 2
    assert done.lines[0]["bits"] == right
    (warning,) = done.warnings
    assert "was replaced after it was asked what it is" in warning
    (entry,) = [entry["manifest"] for entry in place.verb("list") if "kernel" in entry["manifest"]]
    assert " d=31 " in entry["kernel"] and entry["compiler"].startswith("torture version 2")
