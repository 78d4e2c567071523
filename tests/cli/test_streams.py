"""Standard streams that the caller has closed, so that their numbers are free for other files."""

import os
import subprocess

import numpy
import pytest

from conftest import COMMAND


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
def test_what_is_printed_then_is_in_no_file(tmp_path, cache, closed):
    """A file that is opened next would get the stream's number."""

    def close_them():
        for stream in closed:
            os.close(stream)

    out = tmp_path / "o.npy"
    words = ["run", "fwd fp32 h=1 s=8 d=8", "--out", str(out), "--repeat", "0"]
    environment = os.environ | {"REGARD_CACHE_DIR": str(cache), "REGARD_LOG": "all"}
    subprocess.run([COMMAND, *words], env=environment, preexec_fn=close_them, capture_output=True, timeout=60)
    assert out.read_bytes().startswith(b"\x93NUMPY") and numpy.load(out).shape == (1, 8, 1, 8)
