"""The installed library: its exports, its dependencies, and programs outside the tree that build and run with it."""

import os
import re
import shutil
import subprocess

import pytest
from places import BUILD, ROOT


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def install(prefix, **options):
    run("cmake", "--install", BUILD, "--prefix", prefix, **options)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """Installs into one folder, then moves it to another with a space in its name."""
    first = tmp_path_factory.mktemp("install") / "first"
    install(first)
    moved = tmp_path_factory.mktemp("moved") / "a prefix"
    shutil.move(first, moved)
    return moved


@pytest.fixture(scope="module")
def library(prefix):
    return next(prefix.glob("lib*/**/libregard.so"))


def pkg_config_environment(library):
    return {**os.environ, "PKG_CONFIG_PATH": str(library.parent / "pkgconfig")}


def test_exported_symbols_are_the_functions_of_the_header(prefix, library):
    header = (prefix / "include/regard/regard.h").read_text()
    declared = set(re.findall(r"^REGARD_API[^(]*?(\w+)\(", header, re.MULTILINE))
    symbols = (line.split() for line in run("nm", "-D", "--defined-only", library).splitlines())
    exported = {name.partition("@")[0] for _, kind, name in symbols if kind != "A"}
    assert len(declared) > 20
    assert exported == declared


def test_library_needs_what_is_documented_and_nothing_else(library):
    documented = {
        "libtbb",
        "libfmt",
        "libcrypto",
        "libzstd",
        "libminizip",
        "libstdc++",
        "libm",
        "libgcc_s",
        "libc",
        "ld-linux-x86-64",
    }
    needed = re.findall(r"NEEDED.*\[(.*?)\.so", run("readelf", "-d", library))
    assert set(needed) <= documented


def test_library_has_a_version_in_its_name(library):
    soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", library)).group(1)
    assert re.fullmatch(r"libregard\.so\.\d+", soname)
    assert (library.parent / soname).exists()


def test_moved_command_runs(prefix):
    environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    assert "ok" in run(prefix / "bin/regard", "run", "fwd", "fp32", "s=64", "d=32", "--repeat=1", env=environment)


def test_moved_command_builds_libraries(prefix, tmp_path):
    (tmp_path / "te.toml").write_text(
        '[build]\nnamespace = "te"\ntargets = ["cpu-avx2"]\noutput = ["shared", "static"]\n'
        '[[variants]]\nproblems = ["fwd fp32 h=1 s=16 d=7"]\n'
    )
    run(prefix / "bin/regard", "build", tmp_path / "te.toml", env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)})
    assert sorted(os.listdir(tmp_path / "te-build/lib")) == ["cmake", "libte_regard.a", "libte_regard.so", "pkgconfig"]


def test_c_example_builds_with_pkg_config(library, tmp_path):
    # A folder without a space: make and pkg-config split flags at spaces.
    prefix = tmp_path / "prefix"
    install(prefix)
    library = next(prefix.glob("lib*/**/libregard.so"))
    shutil.copytree(ROOT / "examples/c", tmp_path / "c")
    run("make", "-C", tmp_path / "c", env=pkg_config_environment(library))
    assert "o = 1, 1.5" in run(tmp_path / "c/attention")


def test_cpp_example_builds_with_find_package(prefix, tmp_path):
    build = tmp_path / "build"
    run(
        "cmake", "-S", ROOT / "examples/cpp", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"
    )
    run("cmake", "--build", build)
    assert "refused: hq=8 is not a multiple of hk=3" in run(build / "attention")


def test_package_names_no_dependency_of_the_library(library):
    for file in (library.parent / "cmake/regard").glob("*.cmake"):
        text = file.read_text()
        assert "find_dependency" not in text and "fmt" not in text, file


def test_pkg_config_knows_the_version(library):
    shown = run("pkg-config", "--modversion", "regard", env=pkg_config_environment(library))
    assert shown.strip() == run(library.parent.parent / "bin/regard", "--version").split()[1]


def test_destdir_is_respected(tmp_path):
    install("/opt/regard", env={**os.environ, "DESTDIR": str(tmp_path)})
    assert (tmp_path / "opt/regard/bin/regard").exists()


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory):
    """A build folder configured as by `./dev demo`; nothing is built yet."""
    folder = tmp_path_factory.mktemp("unbuilt")
    options = ["-DREGARD_TESTS=OFF", "-DREGARD_PYTHON=OFF"]
    run("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *options)
    return folder


def test_what_the_demo_builds_is_all_that_is_installed(unbuilt):
    """It builds only the command: the library, the completion scripts and the rest must be built along with it."""
    assert "--target regard_cli\n" in (ROOT / "dev").read_text()
    commands = run("ninja", "-C", unbuilt, "-t", "commands", "regard_cli")
    script = (unbuilt / "cmake_install.cmake").read_text()
    named = set(re.findall(r'"(/[^"$:]+)"', script))
    built = {path for path in named if path.startswith(str(unbuilt)) and "manifest" not in path}
    assert {"regard", "regard.bash", "libregard.so.0.1.0"} <= {os.path.basename(path) for path in built}
    for path in built:
        assert os.path.exists(path) or os.path.relpath(path, unbuilt) in commands, path


def test_of_a_build_that_is_not_complete_nothing_is_installed(unbuilt, tmp_path):
    done = subprocess.run(
        ["cmake", "--install", unbuilt, "--prefix", tmp_path / "prefix"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode != 0
    assert f"is not built yet, so nothing is installed; run: cmake --build {unbuilt}" in " ".join(done.stderr.split())
    assert not (tmp_path / "prefix").exists()


def test_what_a_machine_lacks_is_told_in_a_sentence(tmp_path):
    options = ["-DREGARD_TESTS=OFF", "-DCMAKE_DISABLE_FIND_PACKAGE_TBB=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_CLI11=ON"]
    done = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path, "-G", "Ninja", *options], capture_output=True, text=True, timeout=120
    )
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert "this machine lacks TBB, CLI11. On Debian or Ubuntu run, as root: apt-get install -y g++ cmake" in said


@pytest.mark.parametrize(
    "shell",
    [
        "share/bash-completion/completions/regard",
        "share/zsh/site-functions/_regard",
        "share/fish/vendor_completions.d/regard.fish",
    ],
)
def test_completions_are_installed(prefix, shell):
    assert "mask=causal" in (prefix / shell).read_text()


def test_the_man_page_has_every_verb_and_option(prefix):
    page = (prefix / "share/man/man1/regard.1").read_text()
    help = run(prefix / "bin/regard", "--help")
    verbs = re.findall(r"^  (\w+)  ", help.partition("Subcommands:")[2], re.MULTILINE)
    assert "run" in verbs and re.findall(r"^\.SS (\w+)$", page, re.MULTILINE) == verbs
    for verb in verbs:
        options = re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", run(prefix / "bin/regard", "help", verb), re.MULTILINE)
        own = page.partition(f".SS {verb}\n")[2].partition("\n.SS ")[0].replace("\\-", "-")
        assert options and all(f"\\fB{option}\\fR" in own for option in options), verb
    assert "3 refused or no kernel" in page


def test_the_licence_is_installed(prefix):
    assert (prefix / "share/doc/regard/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
