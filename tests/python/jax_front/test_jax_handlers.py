"""The handlers as XLA sees them, through the C interface: their metadata, and calls that they refuse."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import foreign
import pytest
from foreign import INVALID, METADATA, POINTER, Asks, Call, Extension, Metadata, Version, answer, handler
from places import BUILD

PLATFORMS = pytest.mark.parametrize("platform", ["cpu", "CUDA", "ROCM"])


@PLATFORMS
def test_the_lowest_version_and_no_promise_to_be_recorded(platform):
    metadata = Metadata(ctypes.sizeof(Metadata), Version(ctypes.sizeof(Version), None, 9, 9), 9)
    asks = Asks(Extension(ctypes.sizeof(Extension), METADATA, None), ctypes.pointer(metadata))
    call = Call(ctypes.sizeof(Call), ctypes.cast(ctypes.pointer(asks), POINTER))
    assert handler(platform)(ctypes.byref(call)) is None
    assert (metadata.version.major, metadata.version.minor, metadata.traits) == (0, 1, 0)


@PLATFORMS
def test_an_xla_of_another_kind_is_refused(platform):
    for wrong in ({"major": 1}, {"of_api": -8}, {"of_call": -8}):
        ((code, sentence),) = answer(platform, **wrong)
        assert code == INVALID and "calls foreign functions in a way that Regard does not know" in sentence


def test_a_call_of_another_version_of_regard_is_refused():
    ((code, sentence),) = answer("cpu")
    assert code == INVALID and "has no attribute 'problem'" in sentence
    assert answer("cpu", stage=0) == []  # nothing has to be done before a call


@pytest.mark.parametrize("platform", ["CUDA", "ROCM"])
def test_a_call_on_a_gpu(tmp_path, platform):
    """With a recording driver: the call goes into XLA's stream, and backward is refused with the plan's message."""
    driver = BUILD / "tests" / "fake_driver"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("the driver that records is not built")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "REGARD_CACHE_DIR": str(tmp_path)}
    program = Path(foreign.__file__).parent / "call_on_fake_gpu.py"
    done = subprocess.run([sys.executable, program, platform], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "as it should be"
