"""Bad input is refused in one sentence; nothing is lost, leaked or left behind."""

import contextlib
import gc
import subprocess
import sys
import threading
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


# What is wrong, how it is given, and what is said of it.
WRONG = {
    "q of NumPy": (lambda: {"q": Q.numpy()}, TypeError, "q is of type ndarray; regard.torch takes tensors"),
    "k a list": (lambda: {"k": [1.0]}, TypeError, "k is of type list"),
    "v None": (lambda: {"v": None}, TypeError, "v is of type NoneType"),
    "float64": (lambda: {"q": Q.double()}, ValueError, "q has dtype float64"),
    "whole numbers": (lambda: {"q": Q.int()}, ValueError, "q has dtype int32"),
    "complex": (lambda: {"q": torch.complex(Q, Q)}, ValueError, "q has dtype complex64"),
    "two types": (lambda: {"k": K.half()}, ValueError, "tensor 'k'"),
    "bias of another type": (
        lambda: {"bias": cases.numbers(1, 33, 47).half()},
        ValueError,
        "beside them a bias is fp32",
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
    attention(Q, K, V)  # a call like this one may be remembered
    refused(kind, sentence, **given())
    given = given()
    if isinstance(given.get("k", K), torch.Tensor):
        where = "v" if "v" not in given else "k"
        refused(kind, sentence, **{where: leaf({"k": K, "v": V}[where]), **given})


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


def test_a_gradient_of_lse_is_refused():
    q = leaf(Q)
    for options in ({}, {"sink": cases.numbers(1, 4)}):
        o, lse = attention(q, K, V, lse=True, **options)
        for depends in (lse, o.sum() + lse):
            with pytest.raises(NotImplementedError, match="lse has no gradient here.*use lse.detach()"):
                depends.sum().backward(retain_graph=True)
        (o.sum() + lse.detach().sum()).backward()
    with pytest.raises(NotImplementedError, match="lse has no gradient here"):
        torch.func.grad(lambda q: attention(q, K, V, lse=True)[1].sum())(Q)


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
    for wanted in (False, True):
        torch.use_deterministic_algorithms(wanted)
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


def test_replacing_ends_with_its_block_and_holds_for_its_thread():
    functional = torch.nn.functional
    own, q = functional.scaled_dot_product_attention, cases.numbers(1, 1, 2, 9, 16)
    told = []

    def elsewhere():
        told.append(functional.scaled_dot_product_attention(q, q, q))

    with pytest.raises(KeyError), regard.torch.replace_sdpa(), regard.torch.replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), regard.torch.sdpa(q, q, q))
        assert functional.scaled_dot_product_attention(q.double(), q.double(), value=q.double()).dtype == torch.double
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        raise KeyError
    assert functional.scaled_dot_product_attention is own
    assert torch.equal(told[0], own(q, q, q))


HANDED_BACK = {
    "d of 600": (cases.numbers(1, 1, 2, 9, 600), {}),
    "d of 0": (cases.numbers(1, 1, 2, 9, 0), {}),
    "no heads": (cases.numbers(1, 1, 0, 9, 16), {}),
    "all dropped": (cases.numbers(1, 1, 2, 9, 16), {"dropout_p": 1.0}),
    "two dimensions, all dropped": (cases.numbers(1, 9, 16), {"dropout_p": 1.0, "attn_mask": torch.ones(9, 9) > 0}),
    "an infinite scale": (cases.numbers(1, 1, 2, 9, 16), {"scale": float("inf")}),
}


@pytest.mark.parametrize("name", HANDED_BACK)
def test_replacing_hands_back_what_is_refused(name):
    x, options = HANDED_BACK[name]
    with pytest.raises(ValueError):
        regard.torch.sdpa(x, x, x, **options)
    results = []
    for replaced in (False, True):
        with regard.torch.replace_sdpa() if replaced else contextlib.nullcontext():
            q = leaf(x)
            o = torch.nn.functional.scaled_dot_product_attention(q, x, value=x, **options)
            o.sum().backward()
            results += [o.detach(), q.grad]
    torch.testing.assert_close(results[:2], results[2:], equal_nan=True)


def test_replacing_hands_back_gradients_that_are_refused(monkeypatch):
    def plan(text, target):
        if text.startswith("bwd"):
            raise regard.RefusedError("no kernels")

    functional, q = torch.nn.functional, cases.numbers(1, 1, 2, 9, 24)
    own, ours = (f(q, q, q) for f in (functional.scaled_dot_product_attention, regard.torch.sdpa))
    assert not torch.equal(own, ours)
    monkeypatch.setattr("regard.torch.taking.plan", plan)
    regard.torch.taking._planned.cache_clear()
    with regard.torch.replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(leaf(q), q, q), own)
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), ours)
    regard.torch.taking._planned.cache_clear()


def test_replacing_keeps_what_another_library_put_there(monkeypatch):
    functional, q, told = torch.nn.functional, cases.numbers(1, 1, 2, 9, 16), []

    def patch():
        inner = functional.scaled_dot_product_attention

        def patched(query, *arguments):
            told.append(query.dtype)
            return inner(query, *arguments)

        monkeypatch.setattr(functional, "scaled_dot_product_attention", patched)
        return patched

    before = patch()
    with regard.torch.replace_sdpa():
        functional.scaled_dot_product_attention(q, q, q)
        functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
        assert told == [torch.double]
    assert functional.scaled_dot_product_attention is before
    with regard.torch.replace_sdpa():
        within = patch()
    assert functional.scaled_dot_product_attention is within
    with regard.torch.replace_sdpa():  # around one that calls the first
        functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
    assert told == [torch.double] * 3


def test_replacing_may_end_in_another_thread():
    functional, q = torch.nn.functional, cases.numbers(1, 1, 2, 9, 16)
    own, context = functional.scaled_dot_product_attention, regard.torch.replace_sdpa()
    thread = threading.Thread(target=context.__enter__)
    thread.start()
    thread.join()
    context.__exit__(None, None, None)
    assert functional.scaled_dot_product_attention is own
    with regard.torch.replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), regard.torch.sdpa(q, q, q))


def test_nothing_leaks():
    """Neither objects nor memory: 10,000 calls of tensors that have 8 kB each."""
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
