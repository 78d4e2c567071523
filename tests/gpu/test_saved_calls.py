"""Calls that REGARD_SAVE_CALLS saves on a GPU are run again there and on a CPU."""

from __future__ import annotations

import json
import sys

import pytest
from training import NAN_IN_STEP_4

import here

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)


def rerun(call, *words):
    done = here.regard("rerun", str(call), "--oracle", "--json", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_a_nan_in_the_middle_of_training(tmp_path):
    settings = {"REGARD_SAVE_CALLS": f"{tmp_path},when=nan,calls=1"}
    done = here.run(sys.executable, "-c", NAN_IN_STEP_4, "cuda", "bfloat16", **settings)
    assert done.returncode == 0, done.stderr
    (call,) = tmp_path.iterdir()
    description = json.loads((call / "call.json").read_text())
    assert description["problem"].startswith("fwd bf16 b=2 h=3 s=19 d=64")
    assert description["found"]["output"] == "o" and description["found"]["index"][:3] == [1, 7, 2]
    report = rerun(call)
    assert report["target"] in here.targets() and report["verdict"] == "same_bits"
    assert report["oracle"]["saved"]["ok"]  # the input makes it NaN
    assert rerun(call, "--target=cpu-generic")["verdict"] == "within_bound"
