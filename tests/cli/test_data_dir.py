"""A user's own folder of targets and profiles (REGARD_DATA_DIR), whatever its files contain."""

import itertools
import os
import re
import shutil

import pytest
from places import ROOT

FORWARD = "fwd fp32 h=2 s=64 d=64"
DECODE = "fwd fp32 hq=8 hk=1 sq=1 sk=4096 d=64"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    for name in ("targets", "profiles", "kernels"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def change(file, old, new, count=0):
    text = file.read_text()
    changed = re.sub(old, new, text, count=count, flags=re.MULTILINE)
    assert changed != text
    file.write_text(changed)


def test_prebuild_of_nothing_is_refused(data, refused):
    file = data / "targets" / "gfx942.toml"
    text = file.read_text()
    file.write_text(text[: text.index("[[tiles]]")])  # with it go all kernels
    here = {"code": 3, "REGARD_DATA_DIR": str(data)}
    cannot = "regard: none of the targets can do this: no kernels for 'fwd bf16"
    assert refused("prebuild --target=gfx942 --profile=flash", **here).startswith(cannot)
    nothing = "target gfx942 has no kernels of profile flash"
    assert nothing in refused("prebuild --target=cpu-generic,gfx942 --profile=flash", **here)


@pytest.mark.parametrize(
    "file, old, new, sentence",
    [
        ("sm_90a", r"^wave = .*", "wave = 0", "'wave' is 0, but must be between 1 and 128"),
        ("sm_90a", r"^units = .*", "units = 99999999999", "'units' is 99999999999, but must be between 1 and"),
        ("cpu-avx2", r"^vector_bytes = .*", "vector_bytes = 4294967328", "'vector_bytes' is 4294967328, but must be"),
        ("cpu-avx2", r"^vector_bytes = .*", "vector_bytes = 48", "'vector_bytes' is 48, but must be a power of two"),
        (
            "cpu-avx2",
            r"^block_q = .*",
            "block_q = 9000000000000000000",
            "'block_q' is 9000000000000000000, but must be",
        ),
        ("cpu-avx2", r"^vector_bytes = .*", "vector_bytes = 64", "but must be 16 or 32 with the feature avx2"),
        ("cpu-avx2", r"^block_q = .*", "block_q = -1", "'block_q' must not be negative"),
        ("cpu-avx2", r"^max_d = .*", "max_d = 0", "'max_d' is 0, but must be between 1 and"),
        ("cpu-avx2", r"^preference = .*", "preference = 4294967306", "'preference' is 4294967306, but must be"),
        ("cpu-avx2", r"fp16 = 80", "fp16 = -1.0", "'fp16' is -1, but must be between 0 and"),
        ("cpu-avx2", r"fp16 = 80", "fp16 = inf", "'fp16' is inf, but must be between 0 and"),
        ("sm_90a", r"^gigabytes_per_second = .*", "gigabytes_per_second = nan", "'gigabytes_per_second' is nan"),
        ("gfx942", r"^wave = .*", "wave = 0", "'wave' is 0, but must be between 1 and"),
        ("cpu-avx2", r"\Adoc = ", "doc = ]\n", "targets/cpu-avx2.toml:1: "),
        ("cpu-avx2", r"\A", "a" + ".a" * 100_000 + " = 1\n", "targets/cpu-avx2.toml:1: it has more than 100 dots"),
        ("cpu-avx2", r"\A", "#" * 300_000 + "\n", "targets/cpu-avx2.toml: it is 30"),
        ("cpu-avx2", r"\A", "a = " + "[" * 10_000 + "\n", "targets/cpu-avx2.toml:1: "),
    ],
)
def test_numbers_have_ranges(refused, data, file, old, new, sentence):
    change(data / "targets" / f"{file}.toml", old, lambda _: new, count=1)
    assert sentence in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))


@pytest.mark.parametrize(
    "target, kernel, number",
    [
        *itertools.product(["cpu-avx2", "cpu-generic"], ["cpu_backward", "cpu_forward"], ["block_q", "block_k"]),
        *itertools.product(["cpu-avx2", "cpu-generic"], ["cpu_decode"], ["block_k"]),
        *itertools.product(["sm_80", "sm_90a"], ["portable_forward", "portable_backward"], ["warps"]),
        ("sm_80", "portable_combine", "block_dv"),
        ("sm_90a", "sm90_forward", "stages"),
    ],
)
def test_a_tile_without_a_number_is_refused_with_its_line(refused, data, target, kernel, number):
    path = data / "targets" / f"{target}.toml"
    parts = path.read_text().split("[[tiles]]")
    for i, part in enumerate(parts):
        if f'kernel = "{kernel}"' in part:
            parts[i] = re.sub(rf"^{number} = .*\n|, {number} = +\d+", "", part, flags=re.MULTILINE)
    path.write_text("[[tiles]]".join(parts))
    said = refused("explain", FORWARD, f"--target={target}", REGARD_DATA_DIR=str(data))
    assert re.search(rf"targets/{target}.toml:\d+: a tile for {kernel} needs {number}", said)


@pytest.mark.parametrize(
    "old, new, problem, sentence",
    [
        (
            r"^block_q = 512",
            "block_q = 63",
            FORWARD,
            "block_q=63 of its tile (line 15 of targets/cpu-avx2.toml) must be",
        ),
        (r"^block_k = 192", "block_k = 33", FORWARD, "must be a multiple of 48"),
        (r"pack_gqa = 4", "pack_gqa = 3", DECODE, "must be a power of two from 1 to 8"),
    ],
)
def test_sizes_that_no_kernel_takes_are_refused_before_a_compiler_is_asked(regard, data, old, new, problem, sentence):
    change(data / "targets" / "cpu-avx2.toml", old, new)
    done = regard("explain", "--all", problem, "--target=cpu-avx2", REGARD_DATA_DIR=str(data))
    assert done.code == 0 and sentence in done.out


def test_a_number_of_another_kernel_is_refused_with_its_line(refused, data):
    change(data / "targets" / "sm_90a.toml", r'^kernel = "sm90_forward"\n', r"\g<0>warps_across = 2\n", count=1)
    said = refused("explain", "fwd bf16 h=2 s=64 d=64", "--target=sm_90a", REGARD_DATA_DIR=str(data))
    assert re.search(
        r"targets/sm_90a.toml:\d+: sm90_forward takes no 'warps_across'; did you mean 'warp_groups'\?", said
    )


def test_a_gpu_without_waves_is_refused(refused, data):
    change(data / "targets" / "sm_90.toml", r"^wave = .*\n", "")
    said = refused("explain", "fwd bf16 h=2 s=64 d=64", "--target=sm_90", REGARD_DATA_DIR=str(data))
    assert "targets/sm_90.toml:1: the key 'wave' is missing" in said


def test_a_profile_is_bounded(refused, data):
    lists = {"d": 100, "dv": 100}
    text = 'doc = "d"\n[[variants]]\nmask = ["none", "causal"]\nsoftcap = [true, false]\ndropout = [true, false]\n'
    text += "".join(f"{name} = {list(range(1, count + 1))}\n" for name, count in lists.items())
    (data / "profiles" / "flash.toml").write_text(
        text + "lse = [true, false]\nvarlen = [true, false]\nsink = [true, false]\n"
    )
    said = refused("list", "--profile", "flash", REGARD_DATA_DIR=str(data))
    assert "combinations, but may make at most 262144" in said


def test_what_is_no_file_is_named(refused, data):
    path = data / "targets" / "cpu-avx2.toml"
    path.unlink()
    assert "No such file" in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))
    path.mkdir()
    assert "it is not a file" in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))
    path.rmdir()
    os.mkfifo(path)
    assert "it is not a file" in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "it is not a file" in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))
    path.unlink()
    with path.open("wb") as file:
        file.truncate(1 << 33)
    assert "it is larger than 1048576 bytes" in refused("explain", FORWARD, REGARD_DATA_DIR=str(data))
