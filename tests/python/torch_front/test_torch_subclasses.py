"""Tensors that are more than their memory: those of torch.nn.attention.bias are supported, others refused."""

import pytest

torch = pytest.importorskip("torch")
from torch.distributed.fsdp._flat_param import FlatParameter  # noqa: E402
from torch.distributed.tensor import DTensor, Shard, init_device_mesh  # noqa: E402
from torch.masked import masked_tensor  # noqa: E402
from torch.nn.attention.bias import causal_lower_right, causal_upper_left  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from torch_cases import numbers  # noqa: E402

import regard.torch  # noqa: E402
from regard.torch.tensors import has_own_functions  # noqa: E402

functional = torch.nn.functional
X = numbers(1, 2, 2, 9, 16)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("make", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("sizes", [(4, 6), (6, 6), (6, 4)])
def test_causal_biases_are_the_masks_that_they_mean(sizes, make, replaced):
    sq, sk = sizes
    q, k = numbers(2, 2, 3, sq, 16), numbers(3, 2, 3, sk, 16)
    corner = torch.ones(sizes, dtype=torch.bool).tril(0 if make is causal_upper_left else sk - sq)
    expected = functional.scaled_dot_product_attention(q.double(), k.double(), k.double(), corner).float()
    if replaced:
        with regard.torch.replace_sdpa(strict=True):
            got = functional.scaled_dot_product_attention(q, k, k, make(sq, sk))
    else:
        got = regard.torch.sdpa(q, k, k, attn_mask=make(sq, sk))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)


def test_causal_biases_are_of_the_sizes_of_the_call_and_say_all_of_the_mask():
    with pytest.raises(ValueError, match="a CausalBias of 8 queries and 9 keys, and there are 9 and 9"):
        regard.torch.sdpa(X, X, X, causal_upper_left(8, 9))
    with pytest.raises(ValueError, match="leave is_causal out"):
        regard.torch.sdpa(X, X, X, causal_upper_left(9, 9), is_causal=True)


class OwnFunctions(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        return super().__torch_function__(function, types, arguments, options or {})


class OwnOperators(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        raise NotImplementedError(f"{function} is not for {cls.__name__}")


class OnlyNamed(torch.Tensor):
    pass


def all_subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from all_subclasses(each)


def test_of_pytorch_s_subclasses_only_parameters_are_read_as_memory():
    memory = {torch.nn.Parameter, torch.nn.Buffer, FlatParameter}
    shipped = {kind for kind in all_subclasses(torch.Tensor) if kind.__module__.startswith("torch.")}
    assert torch.nn.attention.bias.CausalBias in shipped and DTensor in shipped
    assert {kind for kind in shipped if not has_own_functions(kind)} == memory


def distributed():
    mesh = init_device_mesh("cpu", (2,))
    return DTensor.from_local(X, mesh, [Shard(0)])


@pytest.fixture(scope="module", autouse=True)
def group():
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    torch.distributed.destroy_process_group()


OTHERS = {
    "distributed": distributed,
    "functions of its own": lambda: X.as_subclass(OwnFunctions),
    "operators of its own": lambda: torch.Tensor._make_wrapper_subclass(OwnOperators, X.shape),
    "masked": lambda: masked_tensor(X, torch.ones_like(X, dtype=torch.bool)),
    "jagged": lambda: torch.nested.nested_tensor([X[0, 0]] * 2, layout=torch.jagged),
    "nested": lambda: torch.nested.nested_tensor([X[0]] * 2),
    "sparse": lambda: X.to_sparse(),
    "complex": lambda: torch.complex(X, X),
    "quantised": lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
    "of another library": lambda: X.numpy(),
}
PLACES = {
    "query": lambda call, x: call(x, X, X),
    "key": lambda call, x: call(X, x, X),
    "mask": lambda call, x: call(X, X, X, attn_mask=x),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", OTHERS)
def test_others_are_refused_and_handed_back(kind, place, monkeypatch):
    given = OTHERS[kind]()
    with pytest.raises((ValueError, TypeError, NotImplementedError, RuntimeError)):
        PLACES[place](regard.torch.sdpa, given)
    seen = []
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *arguments, **_: seen.append(arguments[:4]))
    with regard.torch.replace_sdpa() as block:
        PLACES[place](functional.scaled_dot_product_attention, given)
    assert block.computed == 0 and any(x is given for x in seen[0])


def test_operators_do_not_read_it_either():
    q, bias = X.transpose(1, 2), causal_upper_left(9, 9)
    sentence = "bias is a tensor of type CausalBias.*pass a plain tensor"
    with torch.utils.flop_counter.FlopCounterMode(display=False), pytest.raises(ValueError, match=sentence):
        regard.torch.attention(q, q, q, bias=bias)


@pytest.mark.parametrize("where", ["k", "bias", "bits"])
def test_memory_of_a_class_with_functions_of_its_own_is_not_read(where):
    q = X.transpose(1, 2)
    plain = {"k": q, "bias": X[0, :, :, :9], "bits": regard.pack_bits(torch.ones(9, 9) > 0)}
    given = plain[where].as_subclass(OwnFunctions)
    for call in (regard.attention, regard.torch.attention):
        with pytest.raises(ValueError, match=f"{where} is a tensor of type OwnFunctions.*pass a plain tensor"):
            call(**{"q": q, "k": q, "v": q, where: given})


def test_subclasses_that_are_memory_are_computed():
    expected = regard.torch.sdpa(X, X, X)
    with regard.torch.replace_sdpa(strict=True):
        for given in (torch.nn.Parameter(X), torch.nn.Buffer(X), X.as_subclass(OnlyNamed)):
            assert torch.equal(functional.scaled_dot_product_attention(given, X, X), expected)
