import json
import pickle

import pytest

import regard

TEXT = "fwd bf16 b=2 hq=16 hk=4 sq=1024 sk=1024 d=128 mask=causal"


def test_text_and_words_say_the_same():
    words = regard.Problem("fwd", dtype="bf16", b=2, hq=16, hk=4, s=1024, d=128, mask="causal", lse=False, scale=None)
    assert words == regard.Problem(TEXT)
    assert hash(words) == hash(regard.Problem(TEXT))
    assert words != regard.Problem(TEXT + " lse")
    assert words != TEXT
    assert regard.Problem(TEXT, lse=True) == regard.Problem(TEXT + " lse")


def test_text_json_repr_and_pickle_come_back():
    problem = regard.Problem(TEXT)
    assert regard.Problem(problem.text) == problem
    assert regard.Problem.from_json(problem.json) == problem
    assert json.loads(problem.json)["hk"] == 4
    assert eval(repr(problem)) == problem
    assert pickle.loads(pickle.dumps(problem)) == problem
    assert str(problem) == problem.text


def test_flops_count_visible_pairs():
    full = regard.Problem("fwd fp32 b=2 h=3 s=64 d=32").flops
    assert full == 4 * 2 * 3 * 64 * 64 * 32
    assert regard.Problem("fwd fp32 b=2 h=3 s=64 d=32 mask=causal").flops == full * 65 / 128


@pytest.mark.parametrize(("layout", "shape"), [("bshd", (2, 7, 6, 8)), ("bhsd", (2, 6, 7, 8)), ("sbhd", (7, 2, 6, 8))])
def test_tensors_are_shaped_as_the_layout_says(layout, shape):
    tensors = regard.Problem(f"fwd fp32 b=2 h=6 s=7 d=8 lse bias=1h layout={layout}").tensors
    assert tensors["q"].shape == tensors["o"].shape == shape
    assert tensors["lse"].shape == (2, 6, 7)
    assert tensors["bias"].shape == (1, 6, 7, 7)
    assert (tensors["o"].use, tensors["q"].use, tensors["q"].dtype) == ("output", "input", "fp32")
    assert "grad_q" not in tensors
    assert repr(tensors["lse"]) == "lse: output fp32[2,6,7]"


def test_plan_and_explain_answer():
    plan = regard.plan(TEXT)
    assert plan.problem == regard.Problem(TEXT)
    assert plan.workspace_bytes >= 0
    assert json.loads(plan.json)["target"].startswith("cpu")
    assert "generic" in regard.explain(TEXT)
    assert isinstance(regard.explain(TEXT, format="json"), dict)
    assert isinstance(regard.explain(TEXT, "sm_90a"), str)


def test_info_list_cache_and_words_answer():
    assert regard.info()
    assert regard.list() is not None
    assert regard.cache("stat") is not None
    assert "softcap" in {word["word"].partition("=")[0] for word in regard.words()}
