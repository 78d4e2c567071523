"""The libraries of examples/transformer_engine and examples/aiter on a GPU, called as their consumers call them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from here import KIND, ROOT, regard, run, targets


@pytest.mark.parametrize(
    ("example", "manifest", "program"),
    [("transformer_engine", "te_test.toml", "test_ck_fused_attn"), ("aiter", "aiter_test.toml", "test_aiter_mha")],
)
def test_results_and_gradients_are_those_of_loops_in_double_precision(
    example: str, manifest: str, program: str, tmp_path: Path
) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    source = ROOT / "examples" / example
    text = (source / manifest).read_text().replace('"cpu-avx2"', f'"cpu-avx2", "{targets()[0]}"')
    (tmp_path / "te.toml").write_text(text)
    built = regard("build", str(tmp_path / "te.toml"))
    if "regard_parts.o" in built.stderr:
        pytest.skip("needs a build from source, of which libraries are made")
    assert built.returncode == 0, built.stderr
    for words in (
        ["-S", source, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'te-build'}"],
        ["--build", tmp_path / "build"],
    ):
        done = run("cmake", *map(str, words))
        assert done.returncode == 0, done.stdout + done.stderr
    done = run(str(tmp_path / "build" / program), KIND, REGARD_JIT="off", REGARD_CACHE="off")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\nok ") > 20 and "WRONG" not in done.stdout and "\nnone " not in done.stdout
