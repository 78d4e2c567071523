"""Arrays without memory, and tensors whose memory does not hold their elements, never reach a kernel."""

import ctypes
import re

import numpy
import pytest
from no_memory import cut, cut_behind, freed, freed_behind, labelled

import regard

FORWARD = regard.Problem("fwd fp32 b=2 hq=4 hk=2 sq=8 sk=12 d=16 bias=b1 bits ranges sink lengths lse dropout=0.5")
BACKWARD = regard.Problem("bwd fp32 b=2 hq=4 hk=2 sq=8 sk=12 d=16 bias=b1 dbias sink lengths dropout=0.5")
PACKED = regard.Problem("fwd fp32 varlen b=2 h=2 sq=6 sk=6 tq=9 tk=9 d=16 bias=alibi dropout=0.5 dropout_mask")
EIGHT_BITS = regard.Problem("fwd fp8 b=1 h=2 s=8 d=16 descale=head")
PROBLEMS = (FORWARD, BACKWARD, PACKED, EIGHT_BITS)
ROLES = [(problem, role) for problem in PROBLEMS for role in problem.tensors]
TYPES = {"fp32": "float32", "int32": "int32", "uint32": "uint32", "uint8": "uint8", "uint64": "uint64"}
TYPES |= {"fp8": "uint8", "bf16": "uint16"}


def arrays(problem):
    """Arrays for every tensor of a problem."""
    result = {spec.name: numpy.zeros(spec.shape, TYPES[spec.dtype]) for spec in problem.tensors.values()}
    for name in ("offsets_q", "offsets_k"):
        if name in result:
            result[name][:] = [0, 4, 9]
    return result


def refused(role, words, call, *arguments, **options):
    with pytest.raises(regard.InvalidError) as caught:
        call(*arguments, **options)
    sentence = str(caught.value)
    assert re.match(rf"(tensor ')?{role}\b", sentence), sentence
    assert "\n" not in sentence
    for word in [words] if isinstance(words, str) else words:
        assert word in sentence, sentence


# ---- PyTorch


def of_torch(problem):
    torch = pytest.importorskip("torch")
    return {name: torch.from_numpy(array) for name, array in arrays(problem).items()}


def meta(x):
    return x.to("meta")


def fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


def hollow(x):
    """A subclass that holds no data."""
    import torch

    class Hollow(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, arguments=(), options=None):
            raise NotImplementedError(function)

    return torch.Tensor._make_wrapper_subclass(Hollow, x.shape, dtype=x.dtype)


def zero(x):
    """PyTorch's stand-in for zeros that nothing has read."""
    import torch

    return torch._efficientzerotensor(x.shape, dtype=x.dtype)


def functional(x):
    import torch

    return torch._to_functional_tensor(x)


WITHOUT_MEMORY = {
    "freed": freed,
    "freed behind": freed_behind,
    "cut": cut,
    "cut behind": cut_behind,
    "freed subclass": labelled(freed),
    "freed subclass behind": labelled(freed_behind),
    "cut subclass": labelled(cut),
    "meta": meta,
    "fake": fake,
    "hollow": hollow,
    "zero": zero,
    "functional": functional,
}


@pytest.mark.parametrize("kind", WITHOUT_MEMORY)
def test_tensors_without_memory_are_refused_by_name(kind):
    for problem, role in ROLES:
        given = of_torch(problem)
        given[role] = WITHOUT_MEMORY[kind](given[role])
        refused(role, "", regard.plan(problem).run, **given)
        refused(role, "", regard.check, problem, **given)


def test_what_the_first_report_saw_is_refused():
    torch = pytest.importorskip("torch")
    q, k, v = torch.randn(3, 1, 9, 2, 16).unbind(0)
    for _ in range(2):  # a call that matches an earlier one takes another path
        refused("k", ("[1, 9, 2, 16]", "its memory does not cover"), regard.attention, q, freed(k), v)
        refused("o", "its memory does not cover", regard.attention, q, q, v, out=freed(q))
        refused("lengths_k", "its memory does not cover", regard.attention, q, q, v, lengths_k=freed(torch.tensor([9])))
        o, lse = regard.attention(q, k, v, lse=True)
        for place, name in enumerate(("grad_o", "q", "k", "v", "o", "lse")):
            given = [o, q, k, v, o, lse]
            given[place] = freed(given[place])
            refused(name, "its memory does not cover", regard.attention_backward, *given)
        refused("grad_v", "its memory does not cover", regard.attention_backward, o, q, k, v, o, lse, grad_v=freed(v))


def test_a_workspace_has_memory():
    torch = pytest.importorskip("torch")
    plan = regard.plan("fwd fp32 b=2 h=4 s=50 d=32")
    q = torch.randn(2, 50, 4, 32)
    for make in (freed, cut, labelled(freed), labelled(cut)):
        room = torch.empty(plan.workspace_bytes, dtype=torch.uint8)
        refused("workspace", "no memory", plan.run, q=q, k=q, v=q, o=torch.empty_like(q), workspace=make(room))


@pytest.mark.parametrize("kind", ["freed", "freed behind", "cut", "cut behind", "freed subclass", "cut subclass"])
def test_what_is_read_before_a_kernel_runs_has_memory_too(kind):
    torch = pytest.importorskip("torch")
    make = WITHOUT_MEMORY[kind]
    q, offsets, number = torch.randn(9, 2, 16), torch.tensor([0, 9]), torch.tensor(1)
    for leading in ((), (2,), (1, 1, 1, 2)):
        refused("mask", "does not cover", regard.pack_bits, make(torch.ones(*leading, 9, 70, dtype=torch.bool)))
    for name in ("offsets_q", "offsets_k"):
        given = {"offsets_q": offsets, "offsets_k": offsets} | {name: make(offsets)}
        refused(name, "does not cover", regard.attention, q, q, q, **given)
    for name in ("scale", "splits", "threads", "offset", "sink_tokens", "causal", "dropout", "window", "seed"):
        given = make(torch.tensor([1, 2]) if name in ("window", "seed") else number)
        refused(name, "does not cover", regard.attention, q[None], q[None], q[None], **{name: given})
    refused("scale", "does not cover", regard.Problem, "fwd", scale=make(number))
    refused("threads", "does not cover", regard.plan, "fwd d=8 s=8", threads=make(number))


def test_masks_without_elements_need_no_memory():
    torch = pytest.importorskip("torch")
    for shape in ((0, 9), (9, 0), (2, 0, 9)):
        mask = torch.empty(shape, dtype=torch.bool)
        assert mask.data_ptr() == 0
        assert regard.pack_bits(mask).shape == (*shape[:-1], -(-shape[-1] // 32))


def test_tensors_without_elements_need_no_memory():
    torch = pytest.importorskip("torch")
    q, nothing = torch.randn(1, 3, 2, 8), torch.empty(1, 0, 2, 8)
    assert nothing.data_ptr() == 0
    assert (regard.attention(q, nothing, nothing) == 0).all()
    assert regard.attention(nothing, q, q).shape == (1, 0, 2, 8)


def test_parameters_that_are_not_there_yet_are_refused():
    torch = pytest.importorskip("torch")
    q = torch.randn(1, 9, 2, 16)
    refused("k", "", regard.attention, q, torch.nn.UninitializedParameter(), q)
    nested = torch.nested.nested_tensor([q[0], q[0]], layout=torch.jagged)
    refused("k", "", regard.attention, q, nested, q)
    refused("k", "", regard.attention, q, q.to_sparse(), q)
    with pytest.raises(regard.InvalidError, match="^k "):
        torch.func.vmap(lambda x: regard.attention(q, x, q))(torch.stack([q, q]))


# ---- DLPack


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype_code", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("dtype_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Produced:
    """An array of a library that describes itself as a test wants it to."""

    def __init__(self, array, version=None, flags=0, **fields):
        self.shape, self.dtype, self.array = array.shape, array.dtype, array
        sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
        strides = (ctypes.c_int64 * array.ndim)(*(stride // array.itemsize for stride in array.strides))
        tensor = Tensor(array.ctypes.data, 1, 0, array.ndim, 2, 32, 1, sizes, strides, 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        self.versioned = version is not None
        self.kept = Versioned(version, 0, None, None, flags, tensor) if self.versioned else Managed(tensor, None, None)

    def __dlpack_device__(self):
        return (self.kept.tensor.device_type, 0)

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.kept), b"dltensor_versioned" if self.versioned else b"dltensor", None)


def test_what_dlpack_may_say():
    q = numpy.random.default_rng(0).standard_normal((1, 9, 2, 16)).astype("float32")
    expected = regard.attention(q, q, q)

    def same(k):
        assert (regard.attention(q, k, k) == expected).all()

    def without(k, *words):
        refused("k", words, regard.attention, q, k, q)
        refused("k", words, regard.plan("fwd fp32 b=1 h=2 s=9 d=16").run, q=q, k=k, v=q, o=numpy.empty_like(q))

    no_numbers = ctypes.POINTER(ctypes.c_int64)()
    for version in (None, 1):
        same(Produced(q, version))
        same(Produced(q, version, strides=no_numbers))
        padded = numpy.concatenate([numpy.zeros(4, "float32"), q.reshape(-1)])
        same(Produced(q, version, data=padded.ctypes.data, byte_offset=16))
        without(Produced(q, version, data=None), "[1, 9, 2, 16]", "its memory does not cover")
        without(Produced(q, version, data=None, byte_offset=1 << 20), "its memory does not cover")
        without(Produced(q, version, shape=no_numbers))
        without(Produced(q, version, shape=no_numbers, strides=no_numbers))
        without(Produced(q, version, device_type=2), "not in host memory")
        without(Produced(q, version, device_type=10), "not in host memory")
        out = Produced(numpy.empty_like(q), version, data=None)
        refused("o", "its memory does not cover", regard.attention, q, q, q, out=out)
    without(Produced(q, version=2), "version 2")
    without(Produced(q, dtype_lanes=2), "float32x2", "fp32")
    read_only = Produced(numpy.zeros_like(q), version=1, flags=1)
    same(Produced(q, version=1, flags=1))
    refused("o", "read-only", regard.attention, q, q, q, out=read_only)
    assert (read_only.array == 0).all()


def test_a_capsule_is_taken_once():
    q = numpy.zeros((1, 9, 2, 16), "float32")
    plan, capsule = regard.plan("fwd fp32 b=1 h=2 s=9 d=16"), q.__dlpack__()
    plan.run(q=q, k=capsule, v=q, o=numpy.empty_like(q))
    refused("k", "taken", plan.run, q=q, k=capsule, v=q, o=numpy.empty_like(q))
    o = numpy.full_like(q, 7)
    plan.run(q=q, k=q, v=q, o=o.__dlpack__())
    assert (o == 0).all()


# ---- tensors whose memory does not hold their elements


def test_lazy_flags_are_resolved():
    torch = pytest.importorskip("torch")
    q, k, v = torch.randn(3, 1, 9, 2, 16).unbind(0)
    for _ in range(2):
        for place in range(3):
            given = [q, k, v]
            expected = regard.attention(*(-x if i == place else x for i, x in enumerate(given)))
            given[place] = torch._neg_view(given[place])
            assert torch.equal(regard.attention(*given), expected)
            given[place] = labelled(lambda x: x)(given[place])
            assert torch.equal(regard.attention(*given).as_subclass(torch.Tensor), expected)
        imaginary = torch.complex(torch.zeros_like(q), -q).conj().imag
        assert torch.equal(regard.attention(imaginary, k, v), regard.attention(q, k, v))
        out = torch._neg_view(torch.empty_like(q))
        refused("o", ("negative", "resolve_neg"), regard.attention, q, k, v, out=out)
        refused("lse", "resolve_neg", regard.attention, q, k, v, lse=torch._neg_view(torch.empty(1, 2, 9)))
    refused("q", "", regard.attention, torch.complex(q, q).conj(), k, v)


def test_tangents_are_not_lost():
    torch = pytest.importorskip("torch")
    from torch.autograd import forward_ad

    q, k, v = torch.randn(3, 1, 9, 2, 16).unbind(0)
    expected = regard.attention(q, k, v)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(v, torch.ones_like(v))
        refused("v", ("tangent", "unpack_dual"), regard.attention, q, k, dual)
        refused("v", "tangent", regard.attention, q, k, labelled(lambda x: x)(dual))
        assert torch.equal(regard.attention(q, k, v), expected)
        assert torch.equal(regard.attention(q, k, forward_ad.unpack_dual(dual).primal), expected)
    with pytest.raises(regard.InvalidError, match="^v "):
        torch.func.jvp(lambda x: regard.attention(q, k, x), (v,), (v,))


def test_a_lazy_copy_is_its_own():
    """A copy on write: writing to the tensor must not write to the one that it was copied from."""
    torch = pytest.importorskip("torch")
    for kind in (lambda x: x, labelled(lambda x: x)):
        q, original = torch.randn(1, 9, 2, 16), torch.zeros(1, 9, 2, 16)
        out = kind(torch._lazy_clone(original))
        regard.attention(q, q, q, out=out)
        assert (original == 0).all()
        assert torch.equal(out.as_subclass(torch.Tensor), regard.attention(q, q, q))
