"""What front ends build on: a request is read without plan or memory; a forward call carries what backward needs."""

import numpy
import pytest

import regard
from regard import request
from regard.call import Call


class Described:
    """Like a JAX tracer: a shape and a type, and no elements."""

    def __init__(self, *shape, dtype="bfloat16"):
        self.shape, self.dtype = shape, dtype


def test_a_request_is_read_from_shapes_and_types_alone():
    inputs = {"q": Described(2, 5, 4, 16), "k": Described(2, 7, 2, 16), "v": Described(2, 7, 2, 8)}
    options = {"target": "cuda", "causal": True, "bias": Described(1, 4, 5, 7), "dropout": 0.5, "seed": 3}
    read = request.read("fwd", inputs, options, {"lse": True})
    problem = request.problem_of(read.text)
    expected = "fwd bf16 b=2 hq=4 hk=2 sq=5 sk=7 d=16 dv=8 mask=causal bias=1h dropout=0.5 lse"
    assert problem == regard.Problem(expected)
    assert {name: spec.shape for name, spec in read.outputs.items()} == {"o": (2, 5, 4, 8), "lse": (2, 4, 5)}
    assert read.tensors == {**inputs, "bias": options["bias"]} and read.run_options["seed"] == 3
    assert set(options) == {"target", "causal", "bias", "dropout", "seed"}  # is left unchanged


def arrays(random, *shapes):
    return [random.standard_normal(shape).astype("float32") for shape in shapes]


OFFSETS = numpy.array([0, 3, 9], "int32")
OPTIONS = {
    "dropout": {"dropout": 0.5, "seed": 7, "offset": 9, "causal": True},
    "bias": {"bias": numpy.random.default_rng(1).standard_normal((1, 4, 9, 9)).astype("float32")},
    "packed": {"offsets_q": OFFSETS, "offsets_k": OFFSETS, "window": (2, 0)},
}


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_forward_call_carries_its_problem_to_backward(name, library, random):
    options = OPTIONS[name]
    inputs = arrays(random, *[(9, 4, 16) if name == "packed" else (1, 9, 4, 16)] * 4)
    if library == "torch":
        torch = pytest.importorskip("torch")
        inputs = [torch.from_numpy(x) for x in inputs]
        options = {k: torch.from_numpy(x) if isinstance(x, numpy.ndarray) else x for k, x in options.items()}
    grad_o, q, k, v = inputs
    for _ in range(2):  # the second is a repeated one
        forward = Call("fwd", {"q": q, "k": k, "v": v}, options, {"lse": True, "dropout_mask": "dropout" in options})
        o, lse, *_ = forward.run()
        gradients = {"grad_bias": "bias" in options}
        got = forward.backward(grad_o, o, lse, gradients).run()
        expected = regard.attention_backward(grad_o, q, k, v, o, lse, **options, **gradients)
        assert len(got) == len(expected) == 3 + ("bias" in options)
        assert all((one == other).all() for one, other in zip(got, expected))


def test_backward_does_not_look_at_offsets_again(random, monkeypatch):
    grad_o, q, k, v = arrays(random, *[(9, 4, 16)] * 4)
    forward = Call("fwd", {"q": q, "k": k, "v": v}, {"offsets_q": OFFSETS, "offsets_k": OFFSETS}, {"lse": True})
    o, lse = forward.run()
    monkeypatch.setattr("regard.shapes.longest", None)
    assert len(forward.backward(grad_o, o, lse, {}).run()) == 3
