"""Which GPUs `info` shows, and what it says where there are none."""

import ctypes

import pytest
from places import BUILD


def loads(name):
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


def test_info_lists_the_devices_of_both_makes(regard_json):
    driver = BUILD / "tests" / "fake_driver"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("the driver that records is not built")
    about = regard_json("info", LD_LIBRARY_PATH=str(driver))
    shown = [(gpu["kind"], gpu["device"], gpu["chip"], gpu["name"]) for gpu in about["gpus"]]
    assert shown == [
        ("cuda", 0, "sm_90", "Fake Hopper"),
        ("cuda", 1, "sm_80", "Fake Ampere"),
        ("hip", 0, "gfx942", "Fake Instinct"),
        ("hip", 1, "gfx1100", "Fake Radeon"),
    ]
    assert about["gpus_missing"] == {}
    runs = {target["name"]: target["runs_here"] for target in about["targets"]}
    assert runs["gfx942"] and not runs["gfx950"] and not runs["gfx1100"]  # the first device is the current one


def test_info_says_why_there_are_no_gpus(regard_json):
    about = regard_json("info")
    kinds = {gpu["kind"] for gpu in about["gpus"]}
    assert kinds | set(about["gpus_missing"]) == {"cuda", "hip"}
    for sentence in about["gpus_missing"].values():
        assert "this machine" in sentence and "\n" not in sentence


@pytest.mark.skipif(loads("libamdhip64.so.5") is None, reason="the HIP runtime of ROCm 5 is not installed")
@pytest.mark.skipif(any(map(loads, ("libamdhip64.so.6", "libamdhip64.so.7"))), reason="there is a newer one")
def test_the_runtime_of_rocm_5_is_refused(regard, regard_json):
    sentence = "the HIP runtime of this machine is too old: it has no hipGetDevicePropertiesR0600; ROCm 6 or later"
    assert regard_json("info")["gpus_missing"]["hip"].startswith(sentence)
    refused = regard("run fwd bf16 h=1 s=64 d=64 --target=hip")
    assert refused.code == 3 and refused.err.startswith(f"regard: {sentence}")
