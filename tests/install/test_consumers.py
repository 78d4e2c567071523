"""The examples that ship their own kernels: a library for TransformerEngine, an engine, wheels for Python."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest
from places import BUILD, ROOT

EXAMPLES = ROOT / "examples"
# An emulated NVIDIA driver and a compiler for it, which need no GPU; a build without tests does not have them.
EMULATED = BUILD / "tests/emulator"
HAS_EMULATED = (EMULATED / "libcuda.so.1").exists()
# The functions that TransformerEngine's ROCm build links: with structs, and with lists of pointers and strides.
SYMBOLS = {
    "_ZN13ck_fused_attn11ck_attn_fwdERKNS_13CKAttnFwdArgsEP12ihipStream_t",
    "_ZN13ck_fused_attn11ck_attn_bwdERKNS_13CkAttnBwdArgsEP12ihipStream_t",
    "_ZN13ck_fused_attn26ck_attn_bwd_workspace_sizeERKNS_13CkAttnBwdArgsE",
    "_ZN13ck_fused_attn19ck_attn_fwd_uses_v3ERKNS_13CKAttnFwdArgsE",
    "_ZN13ck_fused_attn19ck_attn_bwd_uses_v3ERKNS_13CkAttnBwdArgsE",
    "_ZN13ck_fused_attn22get_runtime_max_seqlenEmPKvS1_PvP12ihipStream_t",
    "_ZN13ck_fused_attn11ck_attn_fwdENS_5DTypeEmmmmmmmmmPKvmmmS2_mmmS2_mmmS2_S2_bffPvS3_NS_8BiasTypeENS_8MaskTypeEll"
    "S3_mmmS3_biP12ihipStream_t",
    "_ZN13ck_fused_attn11ck_attn_bwdENS_5DTypeEmmmmmmmmmPKvmmmS2_mmmS2_mmmS2_S2_S2_mmmS2_S2_mmmffPvS3_NS_8BiasTypeENS_"
    "8MaskTypeEllS3_mmmS3_S3_S3_mmmmmmS3_mmmS3_mmmS3_S3_S3_bbbiP12ihipStream_t",
    "_ZN13ck_fused_attn18ck_attn_varlen_fwdENS_5DTypeEmmmmmmmmPKvmmS2_mmS2_mmS2_S2_S2_S2_bffPvS3_NS_8MaskTypeEllS3_mmS3_"
    "biP12ihipStream_t",
    "_ZN13ck_fused_attn18ck_attn_varlen_bwdENS_5DTypeEmmmmmmmmmPKvmmS2_mmS2_mmS2_S2_S2_S2_S2_mmS2_S2_mmffPvS3_NS_8MaskTypeE"
    "llS3_mmS3_S3_S3_mmmmS3_mmS3_mmS3_bbbiP12ihipStream_t",
}

# The C++ symbols that AITER's library exports, and QoLA's with the namespace te.
STRING = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
AITER_SYMBOLS = {
    "_ZN5aiter7mha_fwdENS_12mha_fwd_argsERKN7ck_tile13stream_configE",
    "_ZN5aiter7mha_bwdENS_12mha_bwd_argsERKN7ck_tile13stream_configE",
    f"_ZN5aiter15mha_fwd_splitkvE21fmha_fwd_splitkv_argsRKN7ck_tile13stream_configE{STRING}b9mask_enum9bias_enumbb",
    "_ZN5aiter17mha_batch_prefillE23fmha_batch_prefill_argsRKN7ck_tile13stream_configE"
    f"{STRING}b9mask_enum9bias_enumb16quant_scale_enumb",
}
QOLA_SYMBOLS = {
    "_ZN4qola2te7mha_fwdERKN5aiter12mha_fwd_argsERKN7ck_tile13stream_configE",
    "_ZN4qola2te7mha_bwdERKN5aiter12mha_bwd_argsERKN7ck_tile13stream_configE",
}


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def built(manifest, output, **settings):
    """Builds the manifest and returns the outputs that `regard build` reports."""
    printed = run(BUILD / "regard", "build", manifest, "--output", output, "--json", env=os.environ | settings)
    return json.loads(printed)["outputs"]


def build_with_cmake(source, output, *options):
    run("cmake", "-S", source, "-B", output, "-DCMAKE_BUILD_TYPE=Debug", *options)
    run("cmake", "--build", output, "--parallel", "2")


@pytest.fixture(scope="module")
def transformer_engine(tmp_path_factory):
    """The build of the example, with kernels for a GPU if there is an emulated one."""
    folder = tmp_path_factory.mktemp("transformer_engine")
    manifest = (EXAMPLES / "transformer_engine/te_test.toml").read_text()
    if HAS_EMULATED:
        manifest = manifest.replace('"cpu-avx2"', '"cpu-avx2", "sm_90a"')
    (folder / "te.toml").write_text(manifest)
    built(folder / "te.toml", folder / "te", REGARD_NVRTC=str(EMULATED / "libnvrtc.so.13"))
    build_with_cmake(EXAMPLES / "transformer_engine", folder / "build", f"-DCMAKE_PREFIX_PATH={folder / 'te'}")
    return folder / "build"


def compared(program, target, **settings):
    """The output of the test program, which must use the library's own kernels or none."""
    alone = {"REGARD_JIT": "off", "REGARD_CACHE": "off"}
    lines = run(program, target, env=os.environ | alone | settings).splitlines()
    return lines, Counter(line.split()[0] for line in lines)


def exported(library):
    lines = run("nm", "-D", "--defined-only", library).splitlines()
    return {line.split()[2] for line in lines if " T " in line}


def test_transformer_engine_s_functions(transformer_engine):
    functions = exported(transformer_engine / "libck_fused_attn.so")
    assert functions == {*SYMBOLS, "_ZN13ck_fused_attn10use_targetEPKc"}
    lines, verdicts = compared(transformer_engine / "test_ck_fused_attn", "cpu-avx2")
    assert verdicts == {"ok": 105}
    page = (EXAMPLES / "transformer_engine/README.md").read_text()
    for sentence in lines[-11:-1]:
        if "hq=2" not in sentence:  # Regard's own sentence
            assert sentence.removeprefix("ok").strip() in page


@pytest.mark.skipif(not HAS_EMULATED, reason="needs the emulated GPU, which a complete build has")
def test_transformer_engine_s_functions_on_a_gpu(transformer_engine):
    program = transformer_engine / "test_ck_fused_attn"
    _, verdicts = compared(program, "cuda", LD_LIBRARY_PATH=str(EMULATED))
    assert verdicts == {"ok": 105}


def test_aiter_s_functions(tmp_path):
    built(EXAMPLES / "aiter/aiter_test.toml", tmp_path / "te")
    build_with_cmake(EXAMPLES / "aiter", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'te'}")
    of_aiter = {*AITER_SYMBOLS, "_ZN5aiter10use_targetEPKc", "_ZN5aiter11why_refusedEv"}
    assert exported(tmp_path / "build/libaiter_mha.so") == of_aiter
    of_qola = {*QOLA_SYMBOLS, "_ZN4qola2te10use_targetEPKc", "_ZN4qola2te11why_refusedEv"}
    assert exported(tmp_path / "build/libte_mha.so") == of_qola
    _, verdicts = compared(tmp_path / "build/test_aiter_mha", "cpu-avx2")
    assert verdicts == {"ok": 54}


@pytest.mark.parametrize("manifest", ["transformer_engine/te.toml", "aiter/aiter.toml"])
def test_every_target_has_kernels(manifest):
    printed = json.loads(run(BUILD / "regard", "build", EXAMPLES / manifest, "--check", "--json"))
    of_targets = [each for variants in printed["variants"] for each in variants["targets"]]
    assert {each["target"] for each in of_targets} >= {"sm_90a"}
    assert all(each["kernels"] > 0 and "unserved" not in each for each in of_targets)


def test_an_engine_that_ships_a_bundle(tmp_path):
    source = EXAMPLES / "cpp_engine"
    (bundle,) = built(source / "engine.toml", tmp_path / "kernels")
    run("cmake", "--install", BUILD, "--prefix", tmp_path / "regard")
    options = [f"-DCMAKE_PREFIX_PATH={tmp_path / 'regard'}", f"-DENGINE_BUNDLE={tmp_path / 'kernels' / bundle['path']}"]
    build_with_cmake(source, tmp_path / "build", *options)
    run("cmake", "--install", tmp_path / "build", "--prefix", tmp_path / "shipped")
    for built_with in ("regard", "kernels", "build"):
        shutil.rmtree(tmp_path / built_with)
    printed = run(tmp_path / "shipped/engine", env={}).splitlines()
    assert [line.partition(": ")[2] for line in printed[:2]] == ["bundle, right"] * 2
    assert printed[2].startswith("not shipped: ") and "softcap = true would add it" in printed[2]


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_wheel_that_is_used_offline(framework, tmp_path):
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"needs {framework}")
    (wheel,) = built(EXAMPLES / framework / "offline.toml", tmp_path / "wheel")
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "install", "--no-deps", "--no-index"]
    run(*pip, "--target", tmp_path / "site", tmp_path / "wheel" / wheel["path"])
    path = os.pathsep.join([str(tmp_path / "site"), os.environ["PYTHONPATH"]])
    program = EXAMPLES / framework / "offline.py"
    printed = run(sys.executable, program, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}).splitlines()
    assert "own attention" in printed[0]
    tiers = dict(re.findall(r"'(\w+)': (\d+)", printed[1]))
    assert int(tiers["bundled"]) >= 2 and tiers["cached"] == tiers["compiled"] == "0"
    assert printed[2].startswith("not in the wheel: ") and "softcap = true would add it" in printed[2]
