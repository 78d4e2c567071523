"""The library ck_fused_attn of examples/transformer_engine on a GPU, called as TransformerEngine calls it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from here import ROOT, regard, run, targets

SOURCE = ROOT / "examples" / "transformer_engine"


def test_results_and_gradients_are_those_of_loops_in_double_precision(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    manifest = (SOURCE / "te_test.toml").read_text().replace('"cpu-avx2"', f'"cpu-avx2", "{targets()[0]}"')
    (tmp_path / "te.toml").write_text(manifest)
    built = regard("build", str(tmp_path / "te.toml"))
    if "regard_parts.o" in built.stderr:
        pytest.skip("needs a build from source, of which libraries are made")
    assert built.returncode == 0, built.stderr
    for words in (
        ["-S", SOURCE, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'te-build'}"],
        ["--build", tmp_path / "build"],
    ):
        done = run("cmake", *map(str, words))
        assert done.returncode == 0, done.stdout + done.stderr
    done = run(str(tmp_path / "build/test_ck_fused_attn"), "cuda", REGARD_JIT="off", REGARD_CACHE="off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok ") > 20 and "WRONG" not in done.stdout and "\nnone " not in done.stdout
