"""The examples of README.md, docs/c.md and docs/kv-cache.md run as written, against an installed library."""

import os
import re
import subprocess
import sys

import pytest
from places import BUILD, ROOT

FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = ("README.md", "docs/c.md", "docs/kv-cache.md")
BLOCKS = [block for page in PAGES for block in FENCE.findall((ROOT / page).read_text())]


def blocks(language):
    found = [text for name, text in BLOCKS if name == language]
    assert found, f"none of {', '.join(PAGES)} has a {language} example"
    return found


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
    return prefix


def environment(prefix):
    libraries = next(prefix.glob("lib*/**/libregard.so")).parent
    return {
        **os.environ,
        "PATH": f"{prefix / 'bin'}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": str(libraries),
        "PKG_CONFIG_PATH": str(libraries / "pkgconfig"),
    }


def run(command, prefix, **options):
    return subprocess.run(
        command, env=environment(prefix), check=True, capture_output=True, text=True, timeout=300, **options
    ).stdout


def build_and_run(source, compiler, prefix):
    program = source.with_suffix("")
    flags = run(["pkg-config", "--cflags", "--libs", "regard"], prefix).split()
    run([*compiler, "-Wall", "-Wextra", "-Werror", "-o", program, source, *flags], prefix)
    return run([program], prefix)


@pytest.mark.parametrize(("index", "shown"), enumerate(["mask=causal: o[0] = 1\n", "v = 41, o = 1 and 41\n"]))
def test_c_example(installed, tmp_path, index, shown):
    source = tmp_path / "example.c"
    source.write_text(blocks("c")[index])
    assert shown in build_and_run(source, ["cc"], installed)


def test_cpp_example(installed, tmp_path):
    source = tmp_path / "example.cpp"
    source.write_text(blocks("cpp")[0])
    assert "o[0] = 0.5" in build_and_run(source, ["c++", "-std=c++20"], installed)


@pytest.mark.parametrize("line", [line for text in blocks("sh") for line in text.splitlines() if line.strip()])
def test_command_example(installed, line):
    assert run(["sh", "-c", line], installed).strip()


def test_python_example(tmp_path):
    script = tmp_path / "example.py"
    script.write_text(blocks("python")[0])
    shown = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert shown.returncode == 0, shown.stderr
    assert "forward" in shown.stdout
