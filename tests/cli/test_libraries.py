"""Libraries built from a manifest: a program that links one needs nothing else of Regard."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from places import BUILD, ROOT

from conftest import COMMAND, environment

SOURCES = pathlib.Path(__file__).with_name("library")
MANIFEST = """
[build]
namespace = "{name}"
targets = ["cpu-avx2"]
output = ["shared", "static"]
undeclared = "{undeclared}"
[[variants]]
problems = ["fwd fp32 b=1 h=2 s=40 d={d}"]
"""
OF_TE, OF_ACME = "fwd fp32 b=1 h=1 s=24 d=59", "fwd fp32 b=1 h=1 s=24 d=40"
ALONE = environment(REGARD_CPU_TARGET="cpu-avx2", REGARD_JIT="off", REGARD_CACHE="off")
# The object file that libraries are linked from is next to the command's library, except in sanitizer builds.
PARTS = pathlib.Path(COMMAND).with_name("regard_parts.o")

pytestmark = pytest.mark.skipif(not PARTS.exists(), reason="a build with sanitizers has no parts to make libraries of")


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose path has no space: pkg-config and the shell split flags at spaces."""
    return tmp_path_factory.mktemp("libraries")


@pytest.fixture(scope="module")
def build(folder, cache):
    """build(name, undeclared, d) builds the manifest and returns the folder, which was moved after the build."""

    def make(name, undeclared, d, output):
        manifest = folder / f"{name}.toml"
        manifest.write_text(MANIFEST.format(name=name, undeclared=undeclared, d=d))
        run(COMMAND, "build", manifest, "--output", output, env=environment(REGARD_CACHE_DIR=str(cache)))

    return make


@pytest.fixture(scope="module")
def te(folder, build):
    build("te", "error", 59, folder / "first")
    moved = folder / "a moved prefix"
    (folder / "first").rename(moved)
    return moved


@pytest.fixture(scope="module")
def acme(folder, build):
    build("acme", "jit", 40, folder / "acme")
    return folder / "acme"


def files(prefix):
    return sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file())


def test_what_is_made(te):
    assert [name for name in files(te) if not name.startswith("kernels/")] == [
        "include/te_regard.h",
        "lib/cmake/te_regard/te_regard-config-version.cmake",
        "lib/cmake/te_regard/te_regard-config.cmake",
        "lib/cmake/te_regard/te_regard_static_target.cmake",
        "lib/cmake/te_regard/te_regard_target.cmake",
        "lib/libte_regard.a",
        "lib/libte_regard.so",
        "lib/pkgconfig/te_regard.pc",
        "lib/pkgconfig/te_regard_static.pc",
        "manifest.json",
    ]


def test_the_header_has_every_name_in_the_namespace(te):
    header = (te / "include/te_regard.h").read_text()
    plain = (ROOT / "include/regard/regard.h").read_text()
    code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    assert not re.search(r"\b(regard|REGARD)_", code)
    assert header.count("te_regard_plan_run(") == plain.count("regard_plan_run(")
    assert "REGARD_THREADS or all cores" in header  # a setting that all libraries share
    for command in (["cc", "-std=c11", "-xc"], ["c++", "-std=c++17", "-xc++"]):
        run(*command, "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", te / "include/te_regard.h")


def test_nothing_outside_the_namespace_is_to_be_seen(te):
    header = (ROOT / "include/regard/regard.h").read_text()
    declared = {"te_" + name for name in re.findall(r"^REGARD_API[^(]*?(\w+)\(", header, re.MULTILINE)}
    for options, library in ((["-D"], "libte_regard.so"), (["-g"], "libte_regard.a")):
        lines = run("nm", *options, "--defined-only", te / "lib" / library).splitlines()
        assert {words[2] for words in map(str.split, lines) if len(words) == 3} == declared
    dynamic = run("readelf", "-d", te / "lib/libte_regard.so")
    assert "[libte_regard.so]" in dynamic and "RPATH" not in dynamic and "RUNPATH" not in dynamic
    needed = re.findall(r"NEEDED.*\[(.*?)\.so", dynamic)
    assert "libregard" not in needed


def test_a_program_of_cmake(te, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(one C)\nfind_package(te_regard 0.1 REQUIRED)\n"
        "foreach(kind te_regard te_regard_static)\n"
        f"  add_executable(of_${{kind}} {SOURCES}/one.c)\n"
        "  target_link_libraries(of_${kind} te_regard::${kind})\nendforeach()\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={te}")
    run("cmake", "--build", tmp_path / "build")
    for kind in ("te_regard", "te_regard_static"):
        found_on_path = ALONE | {"PATH": f"{tmp_path}/build:{os.environ['PATH']}"}
        first, second = run(f"of_{kind}", OF_TE, OF_ACME, env=found_on_path).splitlines()
        assert first == "ok built-in"
        place = te / "lib/libte_regard.so" if kind == "te_regard" else tmp_path / "build/of_te_regard_static"
        assert f"the bundle {place} has" in second
        # The manifest of te says `undeclared = "error"`.
        assert second.startswith("refused: ") and 'has undeclared = "error"' in second and "d = 40" in second
        off = found_on_path | {"REGARD_BUILT_IN": "off", "REGARD_JIT": "on", "REGARD_CACHE": "off"}
        first, second = run(f"of_{kind}", OF_TE, OF_ACME, env=off).splitlines()
        assert first == "ok compile"  # this problem is declared
        assert second.startswith("refused: ") and 'has undeclared = "error"' in second


def test_three_libraries_in_one_program(te, acme, tmp_path):
    configs = f"{acme}/lib/pkgconfig"
    settings = os.environ | {"PKG_CONFIG_PATH": configs}
    assert "libacme_regard.a" in run("pkg-config", "--libs", "acme_regard_static", env=settings)
    flags = run("pkg-config", "--cflags", "--libs", "acme_regard_static", env=settings).split()
    command = ["cc", "-std=c11", "-Wall", "-Werror", SOURCES / "three.c", "-o", tmp_path / "three", *flags]
    of_te = [f"-I{te}/include", f"-L{te}/lib", "-lte_regard"]
    of_plain = [f"-I{ROOT}/include", f"-L{BUILD}", "-lregard"]
    run(*command, *of_te, *of_plain, f"-Wl,-rpath,{te}/lib:{BUILD}", "-rdynamic")
    te_first, acme_first, plain_first, te_second, acme_second, plain_second = run(
        tmp_path / "three", OF_TE, OF_ACME, env=ALONE
    ).splitlines()
    assert (te_first, acme_second) == ("ok built-in", "ok built-in")
    assert te_second.startswith("refused: ") and acme_first.startswith("no_kernel: ")
    assert (plain_first, plain_second) == ("ok built-in", "ok built-in")  # the generic kernel, which those lack
    with_compiler = ALONE | {"REGARD_JIT": "on", "REGARD_CACHE": "on", "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    printed = run(tmp_path / "three", OF_TE, env=with_compiler).splitlines()
    assert printed == ["ok built-in", "ok compile", "ok cache"]  # a kernel compiled by one of them serves the others


def test_the_portable_kernels_of_a_library_are_its_own(build, te, tmp_path):
    build("te", "portable", 59, tmp_path / "te")
    report = json.loads((tmp_path / "te/manifest.json").read_text())
    assert [output["output"] for output in report["outputs"]] == ["shared", "static"]
    generic = [kernel for kernel in report["kernels"] if "cpu_generic" in kernel["kernel"]]
    assert len(generic) == 2 and {line for kernel in generic for line in kernel["lines"]} == {6}
    command = ["cc", SOURCES / "one.c", "-o", tmp_path / "one", f"-I{te}/include"]
    run(*command, f"-L{tmp_path}/te/lib", "-lte_regard", f"-Wl,-rpath,{tmp_path}/te/lib")
    printed = run(tmp_path / "one", OF_TE, OF_ACME, env=ALONE | {"REGARD_JIT": "on"}).splitlines()
    assert printed == ["ok built-in", "ok built-in"]
    printed = run(tmp_path / "one", OF_TE, env=ALONE | {"REGARD_BUILT_IN": "off"})
    assert printed.startswith("no_kernel: ") and "not built into the library" in printed


def test_loaded_side_by_side_and_again(te, acme):
    code = """
import ctypes, _ctypes, os, sys
for turn in range(2):
    libraries = [ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOW) for path in sys.argv[1:]]
    for library, name in zip(libraries, ("te_regard", "acme_regard", "regard")):
        text = ctypes.c_char_p()
        assert getattr(library, name + "_info")(ctypes.byref(text)) == 0
        bundles = text.value.count(b'"title":"' + name.split("_")[0].encode() + b'"')
        print(name, bundles)
    for library in libraries:
        _ctypes.dlclose(library._handle)
"""
    paths = [te / "lib/libte_regard.so", acme / "lib/libacme_regard.so", BUILD / "libregard.so"]
    printed = run(sys.executable, "-c", code, *paths, env=ALONE).splitlines()
    assert printed == ["te_regard 1", "acme_regard 1", "regard 0"] * 2


def test_another_version_side_by_side(te, cache, tmp_path):
    """A library of the same parts, which claim to be of a newer version."""
    newer, ours, theirs = tmp_path / "newer", b"0.1.0\0", b"9.8.7\0"
    newer.mkdir()
    shutil.copy(BUILD / "libregard.so.0", newer)
    assert ours in PARTS.read_bytes()
    (newer / PARTS.name).write_bytes(PARTS.read_bytes().replace(ours, theirs))
    (tmp_path / "acme.toml").write_text(MANIFEST.format(name="acme", undeclared="error", d=40))
    settings = {"LD_LIBRARY_PATH": str(newer), "REGARD_CACHE_DIR": str(cache)}
    run(COMMAND, "build", tmp_path / "acme.toml", "--output", tmp_path / "acme", env=environment(**settings))
    code = """
import ctypes, os, sys
te, acme = (ctypes.CDLL(path, mode=os.RTLD_GLOBAL | os.RTLD_NOW) for path in sys.argv[1:])
for version in (te.te_regard_version, acme.acme_regard_version):
    version.restype = ctypes.c_char_p
    print(version().decode())
of_te, of_acme = te.te_regard_prepare_kernel, acme.acme_regard_prepare_kernel
for prepare, d in ((of_te, 59), (of_acme, 40), (of_te, 40)):
    told = ctypes.c_char_p()
    kernel = f"cpu-avx2 cpu_forward block_q=512 block_k=192 | fwd fp32 d={d}"
    print(prepare(kernel.encode(), ctypes.byref(told)), b'"tier":"built-in"' in (told.value or b""))
"""
    paths = [te / "lib/libte_regard.so", tmp_path / "acme/lib/libacme_regard.so"]
    printed = run(sys.executable, "-c", code, *paths, env=ALONE).splitlines()
    assert printed == ["0.1.0", "9.8.7", "0 True", "0 True", "2 False"]


def test_the_same_bytes_on_another_path(folder, build, acme, tmp_path):
    again = tmp_path / "another place"
    build("acme", "jit", 40, again)
    made = [name for name in files(acme) if name.startswith(("include/", "lib/"))]
    assert len(made) == 9 and made == [name for name in files(again) if name.startswith(("include/", "lib/"))]
    for name in made:
        assert (acme / name).read_bytes() == (again / name).read_bytes(), name


def test_what_an_earlier_build_made_goes(folder, te, regard, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(te, output)
    (output / "lib" / "mine.txt").write_text("")
    manifest = tmp_path / "te.toml"
    manifest.write_text((folder / "te.toml").read_text().replace('"shared", "static"', '"static"'))
    assert regard("build", manifest, "--output", output).code == 0
    left = [name for name in files(output) if name.startswith("lib/") and "cmake/" not in name]
    assert left == ["lib/libte_regard.a", "lib/mine.txt", "lib/pkgconfig/te_regard_static.pc"]


def test_what_is_missing_is_said_before_anything_is_built(folder, te, refused, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("c++", "cc", "as", "ld", "ar", "objdump"):
        (tools / name).symlink_to(shutil.which(name))
    sentence = refused("build", folder / "te.toml", f"--output={tmp_path}/out", code=3, PATH=str(tools))
    assert "there is no objcopy on PATH; it comes with the package binutils" in sentence
    library = next(path for path in pathlib.Path(COMMAND).parent.glob("libregard.so.*.*"))
    shutil.copy(library, tmp_path / "libregard.so.0")  # alone, as in a wheel
    sentence = refused("build", folder / "te.toml", f"--output={tmp_path}/out", code=3, LD_LIBRARY_PATH=str(tmp_path))
    assert "regard_parts.o, from which they are made, is not next to" in sentence and "wheel" in sentence
    assert not (tmp_path / "out").exists()


def test_a_folder_of_the_prefix_that_is_a_link_is_refused(folder, te, refused, tmp_path):
    output = tmp_path / "out"
    shutil.copytree(te, output)
    (output / "lib").rename(tmp_path / "elsewhere")
    (output / "lib").symlink_to(tmp_path / "elsewhere")
    before = files(tmp_path)
    sentence = refused("build", folder / "te.toml", f"--output={output}")
    assert f"cannot write '{output}/lib/" in sentence and f"'{output}/lib' is a link" in sentence
    assert files(tmp_path) == before


def test_a_link_that_fails_leaves_nothing(folder, te, regard, tmp_path):
    compiler = tmp_path / "c++"
    real = shutil.which("c++")
    compiler.write_text(
        f'#!/bin/sh\ncase " $* " in *" -r "*) echo no space left >&2; exit 1;; esac\nexec {real} "$@"\n'
    )
    compiler.chmod(0o755)
    done = regard("build", folder / "te.toml", f"--output={tmp_path}/out", REGARD_CXX=str(compiler))
    assert done.code == 3 and "cannot be linked: " in done.err and "no space left" in done.err
    assert not [name for name in files(tmp_path / "out") if not name.startswith("kernels/")]
