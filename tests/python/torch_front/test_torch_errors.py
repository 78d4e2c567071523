"""Bad input is refused in one sentence; nothing is lost, leaked or left over."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import numpy
import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402

import regard.torch  # noqa: E402

attention = regard.torch.attention
Q, K, V, GRAD_O = cases.inputs("usual")


def leaf(tensor):
    return tensor.clone().requires_grad_()


def meta(tensor):
    return tensor.to("meta")


# What is wrong, how it is passed, and the message.
WRONG = {
    "q of NumPy": (lambda: {"q": Q.numpy()}, TypeError, "q is of type ndarray; regard.torch takes tensors"),
    "k a list": (lambda: {"k": [1.0]}, TypeError, "k is of type list"),
    "v None": (lambda: {"v": None}, ValueError, "v is None, which means that v is the first columns of k: give dv="),
    "float64": (lambda: {"q": Q.double()}, ValueError, "q has dtype float64"),
    "whole numbers": (lambda: {"q": Q.int()}, ValueError, "q has dtype int32"),
    "complex": (lambda: {"q": torch.complex(Q, Q)}, ValueError, "q has dtype complex64"),
    "two types": (lambda: {"k": K.half()}, ValueError, "tensor 'k'"),
    "bias of another type": (
        lambda: {"bias": cases.numbers(1, 33, 47).half()},
        ValueError,
        "with them a bias is fp32",
    ),
    "two devices": (lambda: {"k": meta(K), "v": meta(V)}, ValueError, "k is an array .*memory cannot be taken"),
    "another number of keys": (lambda: {"v": V[:, :40]}, ValueError, "tensor 'v'"),
    "another number of sequences": (lambda: {"k": K[:1]}, ValueError, "tensor 'k'"),
    "heads that are no multiple": (lambda: {"q": Q[:, :, :3]}, ValueError, "hq=3 is not a multiple of hk=2"),
    "three dimensions": (lambda: {"q": Q[0]}, ValueError, "q has shape .* it must have 4 dimensions"),
    "rows that are not contiguous": (
        lambda: {"k": K.transpose(2, 3).contiguous().transpose(2, 3)},
        ValueError,
        "tensor 'k'.*last dimension must be contiguous",
    ),
    "sparse": (lambda: {"q": Q.to_sparse()}, ValueError, "q is an array .*memory cannot be taken"),
    "nested": (lambda: {"q": nested()}, ValueError, "q is a nested tensor: pass its values.. and offsets"),
    "layout": (lambda: {"layout": "hbsd"}, ValueError, "layout is 'hbsd'; it must be"),
    "layout no text": (lambda: {"layout": 5, "bias": leaf(cases.numbers(1, 33, 47))}, ValueError, "layout is 5"),
    "unknown option": (lambda: {"is_causal": True}, ValueError, "is_causal"),
    "dropout of 1": (lambda: {"dropout": 1.0}, ValueError, "dropout=1 is outside"),
    "seed and generator": (
        lambda: {"dropout": 0.1, "seed": 1, "generator": torch.Generator()},
        ValueError,
        "seed and generator both say",
    ),
    "slopes with a gradient": (lambda: {"alibi": leaf(cases.numbers(1, 4))}, ValueError, "alibi requires a gradient"),
    "a freed tensor": (lambda: {"q": freed(Q)}, ValueError, "its storage was freed"),
}
OF_GRADIENTS = {
    "out": (lambda: {"out": torch.empty_like(Q)}, ValueError, "out is a tensor to write to"),
    "lse": (lambda: {"lse": torch.empty(2, 4, 33)}, ValueError, "lse is a tensor to write to"),
}


def nested():
    return torch.nested.nested_tensor([torch.randn(3, 4, 8)] * 2, layout=torch.jagged)


def freed(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


def refused(kind, sentence, **given):
    with pytest.raises(kind, match=sentence) as caught:
        attention(**{"q": Q, "k": K, "v": V} | given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_a_sentence(name):
    given, kind, sentence = WRONG[name]
    attention(Q, K, V)  # a call that matches this one may be remembered
    refused(kind, sentence, **given())
    given = given()
    if isinstance(given.get("k", K), torch.Tensor):
        where = "v" if "v" not in given else "k"
        refused(kind, sentence, **{where: leaf({"k": K, "v": V}[where]), **given})


def operator(*tensors, text):
    return torch.ops.regard.attention(Q, K, V, [*tensors], [], [], text)


SEEN = torch.ones(33, 47, dtype=torch.bool)
FREED = {
    "mask": lambda: regard.torch.sdpa(*(x.transpose(1, 2) for x in (Q, K, V)), freed(SEEN), enable_gqa=True),
    "added mask": lambda: regard.torch.sdpa(
        *(x.transpose(1, 2) for x in (Q, K, V)), freed(SEEN.float()), enable_gqa=True
    ),
    "mask of one row": lambda: regard.torch.sdpa(Q[0, 0], K[0, 0], V[0, 0], freed(torch.ones(4, 2) > 0)),
    "query": lambda: regard.torch.sdpa(freed(Q[0, 0]), K[0, 0], V[0, 0]),
    "query of other strides": lambda: regard.torch.sdpa(*[freed(Q.transpose(2, 3))] * 3),
    "booleans of the operator": lambda: operator(freed(SEEN), text="{'bits': 'tensor'}"),
    "bits of the operator": lambda: operator(freed(regard.pack_bits(SEEN)), text="{'bits': 'tensor'}"),
    "q cast by autocast": lambda: autocast(freed(Q)),
}


def autocast(q):
    with torch.autocast("cpu", torch.bfloat16):
        attention(q, K, V)


@pytest.mark.parametrize("name", FREED)
def test_freed_storage_is_refused_before_pytorch_reads_it(name):
    with pytest.raises(ValueError, match="memory does not cover all of it: its storage was freed"):
        FREED[name]()


@pytest.mark.parametrize("name", ["q", "k", "v", "bias"])
def test_tensors_of_several_devices_are_refused_by_the_operators(name):
    bias = cases.numbers(1, 33, 47)
    given = {"q": Q, "k": K, "v": V, "bias": bias, "o": GRAD_O, "lse": torch.zeros(2, 4, 33)}
    given[name] = meta(given[name])
    q, k, v, bias, o, lse = given.values()
    options = [bias], [], [], "{'bias': 'tensor'}"
    sentence = "is on (cpu|meta) and q on (cpu|meta): all tensors of a call must be on one device"
    with pytest.raises(ValueError, match=sentence):
        torch.ops.regard.attention(q, k, v, *options)
    with pytest.raises(ValueError, match=sentence):
        torch.ops.regard.attention_backward(GRAD_O, q, k, v, o, lse, *options, "bias")


@pytest.mark.parametrize("name", OF_GRADIENTS)
def test_what_is_recorded_writes_to_no_tensor_of_the_caller(name):
    given, kind, sentence = OF_GRADIENTS[name]
    attention(Q, K, V, **given())
    refused(kind, sentence, q=leaf(Q), **given())


def test_inputs_that_were_changed_since_are_noticed():
    q = leaf(Q)
    keys = K.clone()
    o = attention(q, keys, V)
    keys.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        o.sum().backward()


@pytest.mark.parametrize("kind", [list, numpy.array])
def test_options_may_change_after_the_call(kind):
    grads = []
    for later in ([20, 47], [1, 2]):
        q, lengths = leaf(Q), kind([20, 47])
        o = attention(q, K, V, lengths_k=lengths)
        lengths[:] = later
        o.backward(GRAD_O)
        grads.append(q.grad)
    assert torch.equal(*grads)


def test_results_that_are_written_to_tensors_are_noticed():
    out, lse, x = torch.empty_like(Q), torch.empty(2, 4, 33), leaf(Q)
    product = x * out
    versions = out._version, lse._version
    attention(Q, K, V, out=out, lse=lse)
    assert (out._version, lse._version) == tuple(version + 1 for version in versions)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        attention(Q, K, V, out=torch.empty_like(Q))  # has no version


def test_a_graph_is_gone_back_once():
    o = attention(leaf(Q), K, V)
    o.backward(GRAD_O)
    with pytest.raises(RuntimeError, match="second time"):
        o.backward(GRAD_O)


def test_only_wanted_gradients_are_given():
    k, sink = leaf(K), torch.nn.Parameter(cases.numbers(1, 4))
    attention(Q, k, V, sink=sink, bias=cases.numbers(2, 33, 47)).backward(GRAD_O)
    assert k.grad is not None and sink.grad is not None


@pytest.mark.parametrize("name", ["dropout", "window"])
def test_words_of_forward_stay_out_of_backward(name):
    options, _ = cases.FEATURES[name](33, 47)
    grads = []
    for words in ({}, {"splits": 1}, {"batch_invariant": True}):
        q = leaf(Q)
        attention(q, K, V, **options, **words).backward(GRAD_O)
        grads.append(q.grad)
    assert torch.allclose(grads[0], grads[1]) and torch.allclose(grads[0], grads[2])


def test_deterministic_algorithms(monkeypatch):
    seen = []
    forward = regard.torch.autograd.of_forward
    monkeypatch.setattr("regard.torch.autograd.of_forward", lambda *a: seen.append(a[1]) or forward(*a))
    for expected in (False, True):
        torch.use_deterministic_algorithms(expected)
        attention(leaf(Q), K, V).backward(GRAD_O)
    torch.use_deterministic_algorithms(False)
    assert [options.get("deterministic") for options in seen] == [None, None, True, True]


def test_generators_and_checkpoints_draw_the_same_mask():
    generator = torch.Generator().manual_seed(5)
    first = attention(Q, K, V, dropout=0.4, generator=generator)
    assert not torch.equal(first, attention(Q, K, V, dropout=0.4, generator=generator))
    assert torch.equal(first, attention(Q, K, V, dropout=0.4, generator=generator.manual_seed(5)))

    def call(q):
        return attention(q, K, V, dropout=0.4)

    results = []
    for how in (call, *(lambda q, r=r: torch.utils.checkpoint.checkpoint(call, q, use_reentrant=r) for r in (0, 1))):
        q = leaf(Q)
        torch.manual_seed(6)
        how(q).backward(GRAD_O)
        results.append(q.grad)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


def test_nothing_leaks():
    """Neither objects nor memory: 10,000 calls with tensors of 8 kB each."""
    q, k, v = (cases.numbers(i, 1, 16, 2, 64) for i in range(3))

    def call(times):
        for _ in range(times):
            attention(leaf(q), k, v, causal=True).sum().backward()

    call(100)
    gc.collect()
    objects, kilobytes = len(gc.get_objects()), resident()
    call(10000)
    gc.collect()
    assert len(gc.get_objects()) - objects < 100
    assert resident() - kilobytes < 10000


def resident():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmRSS"))


def test_tensors_are_let_go():
    q = leaf(Q)
    o = attention(q, K, V, lse=True)[0]
    o.sum().backward()
    gone = [weakref.ref(q), weakref.ref(o)]
    del q, o
    gc.collect()
    assert all(ref() is None for ref in gone)


def test_regard_alone_imports_no_torch():
    program = "import regard, sys; sys.exit('torch' in sys.modules or 'regard.torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("value", [None, True])
def test_an_unknown_option_is_refused_in_a_graph_too(value):
    program = torch.compile(lambda x: attention(x, x, x, causl=value), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="unknown option 'causl'; did you mean causal="):
        program(Q)
