import copy
import json
import pickle

import numpy
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


PROBLEM = regard.Problem(TEXT)
OBJECTS = {
    "Problem": (PROBLEM, regard.Problem(TEXT), regard.Problem(TEXT + " lse")),
    "TensorSpec": (PROBLEM.tensors["q"], regard.Problem(TEXT).tensors["q"], PROBLEM.tensors["k"]),
    "Plan": (regard.plan(PROBLEM, threads=2), None, regard.plan(PROBLEM, threads=3)),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_compare_with_anything(name):
    one, same, other = OBJECTS[name]
    for stranger in (None, TEXT, 3, 0.5, b"", (), [], {}, object(), type(one), numpy.float32(1), other):
        assert not one == stranger  # noqa: SIM201
        assert one != stranger
        assert one not in [stranger]
    assert one in [None, one] and None not in [one]
    assert one == one and not one != one  # noqa: PLR0124, SIM202
    if same is not None:
        assert one == same and not one != same and hash(one) == hash(same)  # noqa: SIM202
    assert len({one, other, one}) == 2
    for compare in (lambda: one < other, lambda: one >= None):
        with pytest.raises(TypeError, match="not supported between instances"):
            compare()


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_objects_are_copied(make):
    for name in ("Problem", "TensorSpec"):
        one = OBJECTS[name][0]
        assert make(one) == one and repr(make(one)) == repr(one)
    plan = regard.plan(PROBLEM, "cpu-generic", "generic", 2)
    copied = make(plan)
    assert (copied.problem, copied.target, copied.json) == (plan.problem, plan.target, plan.json)
    assert make([plan, plan.problem])[0].workspace_bytes == plan.workspace_bytes


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
