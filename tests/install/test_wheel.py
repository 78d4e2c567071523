"""`pip install .` gives a self-contained package: its library is next to the extension."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import BUILD, ROOT

needed = ("numpy", "nanobind", "scikit_build_core")

PROGRAM = """
import importlib.util, numpy, regard
q = numpy.ones((1, 64, 2, 64), "float32")
assert abs(regard.attention(q, q, q, causal=True) - 1).max() < 1e-5
assert importlib.util.find_spec("regard.jax") is not None
print(regard.__file__)
print([line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if "libregard.so" in line][0])
"""


@pytest.mark.skipif(any(importlib.util.find_spec(name) is None for name in needed), reason=f"needs {', '.join(needed)}")
def test_the_wheel_stands_alone(tmp_path):
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    options = [f"-Cbuild-dir={tmp_path / 'build'}"]
    # With the compiler of the build, whose kernels the wheel reuses; with ccache it then also reuses its objects.
    settings = re.findall(
        r"^(CMAKE_CXX_COMPILER(?:_LAUNCHER)?):\w+=(.+)$", (BUILD / "CMakeCache.txt").read_text(), re.M
    )
    options += [f"-Ccmake.define.{name}={value}" for name, value in settings]
    if (BUILD / "built_in" / "kernels.a").exists():  # the same kernels, already compiled
        options.append(f"-Ccmake.define.REGARD_BUILT_IN_FROM={BUILD}")
    subprocess.run([*pip, "wheel", ROOT, *options, "--no-build-isolation", "--no-deps", "-w", tmp_path], check=True)
    (wheel,) = tmp_path.glob("regard-*.whl")
    site = tmp_path / "site packages"  # a path with a space
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True)
    names = {file.name for file in (site / "regard").iterdir()}
    assert {"py.typed", "_core.pyi", "libregard.so.0"} <= names

    environment = {**os.environ, "PYTHONPATH": str(site), "REGARD_CACHE_DIR": str(tmp_path / "cache")}
    shown = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    ).stdout
    package, library = shown.splitlines()
    assert Path(package).parent == site / "regard"
    assert Path(library) == site / "regard" / "libregard.so.0"

    # pip's `regard` and `python -m regard` are the command, which finds the library of the package.
    for command in ([site / "bin" / "regard"], [sys.executable, "-m", "regard"]):
        done = subprocess.run(
            [*command, "run", "fwd", "fp32", "h=2", "s=33", "d=64"],
            cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0 and "ok" in done.stdout, done.stderr

    # The wheel is made for this machine and must be refused as one for others; but its exports are accepted.
    command = [sys.executable, ROOT / "tools" / "check_wheel.py", wheel]
    checked = subprocess.run(command, capture_output=True, text=True)
    assert checked.returncode == 1
    assert "is not tagged manylinux" in checked.stderr and "exports" not in checked.stderr
