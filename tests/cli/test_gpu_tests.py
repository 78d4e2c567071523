"""How ./dev gpu-test begins: which GPUs it tests, and the probe of AMD's instructions."""

import os
import shutil
import subprocess
import sys

import pytest
from places import BUILD, ROOT

DRIVER = BUILD / "tests" / "fake_driver" / "libcuda.so.1"
EMULATOR = BUILD / "tests" / "emulator"
PROBE = BUILD / "tests" / "amd_probe"
CLANGS = ("clang-22", "clang-21", "clang-20", "clang-19")
pytestmark = pytest.mark.skipif(
    not DRIVER.exists() or not PROBE.exists(), reason="the driver that records, or the probe, is not built"
)


def begun(folder, *libraries, driver=DRIVER, **settings):
    """What the first tests print where these libraries are the driver; by default the one that records."""
    for name in libraries:
        (folder / name).symlink_to(driver)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--log={folder / 'log'}"]
    done = subprocess.run(
        [*command, ROOT / "tests/gpu/test_amd_probe.py"],
        env=os.environ | {"LD_LIBRARY_PATH": str(folder)} | settings,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def test_no_gpu_is_a_reason_for_each_make(tmp_path):
    code, printed = begun(tmp_path)
    assert code != 0 and "no GPU to test: this machine has no NVIDIA driver" in printed and "HIP" in printed


def test_no_gpu_is_found_before_anything_is_built_for_it():
    command = [ROOT / "dev", "gpu-bench", f"--prebuilt={BUILD}"]
    # REGARD_BIN, which names the command to these tests, is no setting of it.
    settings = {name: value for name, value in os.environ.items() if name != "REGARD_BIN"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=settings)
    assert done.returncode == 1 and "gpu-bench needs a GPU with its driver; see above" in done.stderr
    assert done.stderr.startswith("this machine has no NVIDIA driver"), done.stderr


def test_one_make_is_tested(tmp_path):
    code, printed = begun(tmp_path, "libcuda.so.1", "libamdhip64.so.6")
    assert code != 0 and "CUDA_VISIBLE_DEVICES=-1 or HIP_VISIBLE_DEVICES=-1 hides one" in printed


def test_nvidias_gpus_have_no_probe(tmp_path):
    code, printed = begun(tmp_path, "libcuda.so.1")
    assert code == 0 and "2 skipped" in printed, printed


@pytest.mark.skipif(not any(map(shutil.which, CLANGS)), reason="there is no clang from 19 on")
def test_instructions_that_compute_nothing_are_found(tmp_path):
    """This driver launches no kernel."""
    code, printed = begun(tmp_path, "libamdhip64.so.6")
    assert code != 0
    for instruction in ("0 gfx942 mfma_f32_32x32x8f16", "1 gfx1100 wmma_f32_16x16x16_bf16_w32"):
        assert f"FAILED amd_probe: test_instruction[{instruction}]" in printed, printed
    assert "lane 0 has nan as sum 0; by the table it is that of row 0 and column 0" in printed


@pytest.mark.skipif(not EMULATOR.exists(), reason="tests/emulator is not built here")
def test_instructions_of_emulated_chips_are_as_the_tables_say(tmp_path):
    """The first GPU is a gfx950, the second one a gfx1100."""
    settings = {"REGARD_HIPRTC": str(EMULATOR), "EMULATED_CHIP": "gfx950"}
    code, printed = begun(tmp_path, "libamdhip64.so.6", driver=EMULATOR / "libamdhip64.so.6", **settings)
    assert code == 0 and "14 passed" in printed, printed
    log = (tmp_path / "log").read_text()
    assert "test_instruction[0 gfx950 ds_read_b64_tr_b16]" in log and "test_instruction[1 gfx1100 wmma_" in log
