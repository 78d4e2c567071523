"""Instructions of AMD's GPUs against the tables by which kernels are written and emulated. If one differs, whatever
uses it is wrong; so this file is run first."""

import pytest

from here import GPUS, KIND, PROBE, run

DONE = run(PROBE) if KIND == "hip" else None
LINES = DONE.stdout.splitlines() if DONE else []  # "ok 0 gfx942 mfma_f32_32x32x8f16"


@pytest.mark.skipif(KIND != "hip", reason="there is no AMD GPU")
def test_every_gpu_was_probed():
    assert DONE.returncode in (0, 1), DONE.stderr
    assert {line.split()[1] for line in LINES} == {str(gpu["device"]) for gpu in GPUS}, DONE.stderr


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line.split()[1:4]).rstrip(":"))
def test_instruction(line):
    assert line.startswith("ok "), line
