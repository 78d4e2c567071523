"""A graph that PyTorch records by running the code would lack the call: the call is refused instead of lost."""

import numpy
import pytest

torch = pytest.importorskip("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

import regard  # noqa: E402

Q, K, V = torch.randn(3, 1, 9, 2, 16, generator=torch.Generator().manual_seed(0)).unbind(0)
PLAN = regard.plan("fwd fp32 b=1 h=2 s=9 d=16")


class Labelled(torch.Tensor):
    """A subclass, which is read through DLPack where plain tensors are not."""


LSE, OUT, OF_NUMPY, LABELLED = torch.zeros(1, 2, 9), torch.empty(1, 9, 2, 16), Q.numpy(), Q.as_subclass(Labelled)


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def backward(x):
    return regard.attention_backward(Q, x, K, V, Q, LSE)[0]


def by_plan(x):
    PLAN.run(q=x, k=K, v=V, o=OUT)
    return OUT


CALLS = {
    "q": lambda x: regard.attention(x, K, V),
    "v": lambda x: regard.attention(Q, K, x),
    "bias": lambda x: regard.attention(Q, K, V, bias=x[:, :, 0, :9, None].transpose(1, 3)),
    "NumPy beside": lambda x: regard.attention(x, OF_NUMPY, V),
    "NumPy first": lambda x: regard.attention(OF_NUMPY, OF_NUMPY, x),
    "a subclass": lambda x: x + regard.attention(LABELLED, K, V),
    "backward": backward,
    "a plan": by_plan,
    "a check": lambda x: x * regard.check("fwd fp32 b=1 h=2 s=9 d=16", q=x, k=K, v=V, o=V)["ok"],
}
TRACERS = {
    "jit": lambda function: torch.jit.trace(function, (Q,), check_trace=False),
    "make_fx": lambda function: make_fx(function)(Q),
    "before dispatch": lambda function: make_fx(function, pre_dispatch=True)(Q),
    "fake": lambda function: make_fx(function, tracing_mode="fake")(Q),
    "export": lambda function: torch.export.export(Module(function), (Q,), strict=False),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("tracer", TRACERS)
def test_what_is_traced_is_refused(tracer, call):
    regard.attention(Q, K, V)  # a call that matches this one may be remembered
    with pytest.raises(regard.InvalidError, match="while PyTorch traces") as caught:
        TRACERS[tracer](CALLS[call])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", ["q", "v", "NumPy beside", "NumPy first", "backward", "a plan"])
def test_tensors_that_are_not_there_yet_are_refused(call):
    with pytest.raises(regard.InvalidError, match="symbolic_trace") as caught:
        torch.fx.symbolic_trace(CALLS[call])
    assert "\n" not in str(caught.value)


def test_masks_are_packed_in_the_graph():
    traced = make_fx(regard.pack_bits)(K > 0)
    assert torch.equal(traced(V > 0), regard.pack_bits(V > 0))


def test_after_a_trace_calls_are_as_before():
    before = regard.attention(Q, K, V)
    for tracer in ("jit", "make_fx"):
        with pytest.raises(regard.InvalidError):
            TRACERS[tracer](CALLS["q"])
        assert torch.equal(regard.attention(Q, K, V), before)


def test_other_modes_of_pytorch_do_not_matter():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            return function(*arguments, **(options or {}))

    class Looking(TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            return function(*arguments, **(options or {}))

    expected = regard.attention(Q, K, V)
    for mode in (Watching, Looking):
        with mode():
            assert torch.equal(regard.attention(Q, K, V), expected)


def test_arrays_of_numpy_are_no_part_of_a_trace():
    q = OF_NUMPY
    expected = regard.attention(q, q, q)

    def beside(x):
        assert numpy.array_equal(regard.attention(q, q, q), expected)
        return x + 1

    torch.jit.trace(beside, (Q,), check_trace=False)
    make_fx(beside)(Q)
