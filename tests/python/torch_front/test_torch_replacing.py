"""torch.nn.functional.scaled_dot_product_attention, replaced: which calls go where, and for how long."""

import contextlib
import contextvars
import copy
import pickle
import threading

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import regard.torch  # noqa: E402

functional = torch.nn.functional
replace_sdpa = regard.torch.replace_sdpa


def leaf(tensor):
    return tensor.clone().requires_grad_()


def test_it_ends_with_its_block_and_holds_for_its_thread():
    own, q = functional.scaled_dot_product_attention, cases.numbers(1, 1, 2, 9, 16)
    seen = []

    def elsewhere():
        seen.append(functional.scaled_dot_product_attention(q, q, q))

    with pytest.raises(KeyError), replace_sdpa(), replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), regard.torch.sdpa(q, q, q))
        assert functional.scaled_dot_product_attention(q.double(), q.double(), value=q.double()).dtype == torch.double
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        raise KeyError
    assert functional.scaled_dot_product_attention is own
    assert torch.equal(seen[0], own(q, q, q))


HANDED_BACK = {
    "d of 600": (cases.numbers(1, 1, 2, 9, 600), {}),
    "d of 0": (cases.numbers(1, 1, 2, 9, 0), {}),
    "no heads": (cases.numbers(1, 1, 0, 9, 16), {}),
    "all dropped": (cases.numbers(1, 1, 2, 9, 16), {"dropout_p": 1.0}),
    "two dimensions, all dropped": (cases.numbers(1, 9, 16), {"dropout_p": 1.0, "attn_mask": torch.ones(9, 9) > 0}),
    "an infinite scale": (cases.numbers(1, 1, 2, 9, 16), {"scale": float("inf")}),
}


@pytest.mark.parametrize("name", HANDED_BACK)
def test_it_hands_back_what_is_refused(name):
    x, options = HANDED_BACK[name]
    with pytest.raises(ValueError):
        regard.torch.sdpa(x, x, x, **options)
    results = []
    for replaced in (False, True):
        with replace_sdpa() if replaced else contextlib.nullcontext():
            q = leaf(x)
            o = functional.scaled_dot_product_attention(q, x, value=x, **options)
            o.sum().backward()
            results += [o.detach(), q.grad]
    torch.testing.assert_close(results[:2], results[2:], equal_nan=True)


def test_it_hands_back_gradients_that_are_refused(monkeypatch):
    def plan(text, target):
        if text.startswith("bwd"):
            raise regard.RefusedError("no kernels")

    q = cases.numbers(1, 1, 2, 9, 24)
    own, ours = (f(q, q, q) for f in (functional.scaled_dot_product_attention, regard.torch.sdpa))
    assert not torch.equal(own, ours)
    monkeypatch.setattr("regard.torch.taking.plan", plan)
    regard.torch.taking._planned.cache_clear()
    with replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(leaf(q), q, q), own)
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), ours)
    regard.torch.taking._planned.cache_clear()


def test_it_keeps_what_another_library_put_there(monkeypatch):
    q, seen = cases.numbers(1, 1, 2, 9, 16), []

    def patch():
        inner = functional.scaled_dot_product_attention

        def patched(query, *arguments):
            seen.append(query.dtype)
            return inner(query, *arguments)

        monkeypatch.setattr(functional, "scaled_dot_product_attention", patched)
        return patched

    before = patch()
    with replace_sdpa():
        functional.scaled_dot_product_attention(q, q, q)
        functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
        assert seen == [torch.double]
    assert functional.scaled_dot_product_attention is before
    with replace_sdpa():
        within = patch()
    assert functional.scaled_dot_product_attention is within
    with replace_sdpa():  # around one that calls the first
        functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
    assert seen == [torch.double] * 3


def test_it_may_end_in_another_thread():
    q = cases.numbers(1, 1, 2, 9, 16)
    own, context = functional.scaled_dot_product_attention, replace_sdpa()
    thread = threading.Thread(target=context.__enter__)
    thread.start()
    thread.join()
    context.__exit__(None, None, None)
    assert functional.scaled_dot_product_attention is own
    with replace_sdpa():
        assert torch.equal(functional.scaled_dot_product_attention(q, q, q), regard.torch.sdpa(q, q, q))


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize(("dropout", "place"), [(0.0, "within"), (0.3, "within"), (0.3, "after")])
def test_what_forward_replaced_its_recompute_replaces(use_reentrant, dropout, place):
    """In any thread: on GPUs it is one of autograd's. O is linear in V, so <O, W> = <V, dV> with the same mask."""
    q, v, w = leaf(cases.numbers(1, 1, 2, 9, 16)), leaf(cases.numbers(2, 1, 2, 9, 16)), cases.numbers(3, 1, 2, 9, 16)

    def call(q, v):
        return functional.scaled_dot_product_attention(q, q, v, dropout_p=dropout)

    with replace_sdpa(strict=True):
        loss = (checkpoint(call, q, v, use_reentrant=use_reentrant) * w).sum()
        if place == "within":
            in_a_thread(loss.backward)
    if place == "after":
        in_a_thread(loss.backward)
    torch.testing.assert_close((v * v.grad).sum(), loss, rtol=1e-4, atol=1e-4)
    assert torch.utils.checkpoint.CheckpointFunction.forward.__module__ == "torch.utils.checkpoint"


def test_what_forward_did_not_replace_its_recompute_does_not_either():
    """Dropout would draw another mask."""
    q, v, w = leaf(cases.numbers(1, 1, 2, 9, 16)), leaf(cases.numbers(2, 1, 2, 9, 16)), cases.numbers(3, 1, 2, 9, 16)

    def call(q, v):
        return functional.scaled_dot_product_attention(q, q, v, dropout_p=0.3)

    loss = (checkpoint(call, q, v, use_reentrant=True) * w).sum()
    with replace_sdpa(strict=True) as block:
        loss.backward()
        call(q, v)
    torch.testing.assert_close((v * v.grad).sum(), loss, rtol=1e-4, atol=1e-4)
    assert block.computed == 1


class Recomputed(torch.autograd.Function):
    """A checkpoint of another library."""

    @staticmethod
    def forward(ctx, q):
        ctx.save_for_backward(q)
        return functional.scaled_dot_product_attention(q, q, q)

    @staticmethod
    def backward(ctx, grad):
        q = leaf(ctx.saved_tensors[0].detach())
        with torch.enable_grad():
            functional.scaled_dot_product_attention(q, q, q).backward(grad)
        return q.grad


def test_in_autograd_s_threads_it_holds_as_in_the_one_that_called_backward():
    """They find it in the context of that thread, which PyTorch passes on."""
    with replace_sdpa() as block:
        loss = Recomputed.apply(leaf(cases.numbers(1, 1, 2, 9, 16))).sum()
        context = contextvars.copy_context()
        in_a_thread(lambda: context.run(loss.backward))
    assert block.computed == 2


def in_a_thread(function):
    errors = []

    def call():
        try:
            function()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not errors, errors


def test_what_is_recomputed_with_gradients_is_decided_so_in_forward(monkeypatch):
    def plan(text, target):
        if text.startswith("bwd"):
            raise regard.RefusedError("no kernels")

    monkeypatch.setattr("regard.torch.taking.plan", plan)
    regard.torch.taking._planned.cache_clear()
    q = leaf(cases.numbers(1, 1, 2, 9, 24))
    with replace_sdpa() as block:
        checkpoint(lambda q: functional.scaled_dot_product_attention(q, q, q), q, use_reentrant=True).sum().backward()
    assert block.computed == 0 and block.handed_back == {"no kernels": 2}
    regard.torch.taking._planned.cache_clear()


def test_it_can_be_scripted_traced_symbolically_pickled_and_copied():
    layer, x = torch.nn.MultiheadAttention(16, 2), cases.numbers(1, 5, 2, 16)

    def call(x):
        return functional.scaled_dot_product_attention(x, x, x)

    with replace_sdpa():
        scripted = torch.jit.script(layer)
        graph = torch.fx.symbolic_trace(call)
        replaced = functional.scaled_dot_product_attention
        assert copy.deepcopy(replaced) is replaced
        kept = pickle.dumps(replaced)
    torch.testing.assert_close(scripted(x, x, x)[0], layer(x, x, x)[0])
    torch.testing.assert_close(graph(x), call(x))
    assert pickle.loads(kept) is pickle.loads(pickle.dumps(replaced)) is replaced
    assert torch.equal(replaced(x, x, x), call(x))


def test_it_counts_and_says_why():
    q = cases.numbers(1, 1, 2, 9, 16)
    with replace_sdpa() as outer:
        functional.scaled_dot_product_attention(q, q, q)
        with replace_sdpa() as inner:
            functional.scaled_dot_product_attention(q, q, q)
        for _ in range(2):
            functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
    assert (outer.computed, inner.computed) == (1, 1) and not inner.handed_back
    (why,) = outer.handed_back
    assert outer.handed_back[why] == 2 and "torch.float64" in why and why in repr(outer)


def test_strictly_what_is_not_computed_here_is_refused():
    q = cases.numbers(1, 1, 2, 9, 16)
    with replace_sdpa(strict=True):
        with pytest.raises(
            NotImplementedError, match="within replace_sdpa.strict=True. is not computed by Regard: .*64"
        ):
            functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
        with pytest.raises(NotImplementedError, match="dropout=1e-07 is finer than a dropout mask"):
            functional.scaled_dot_product_attention(q, q, q, dropout_p=1e-7)
        with replace_sdpa(), pytest.raises(NotImplementedError):
            functional.scaled_dot_product_attention(q.double(), q.double(), q.double())
    functional.scaled_dot_product_attention(q.double(), q.double(), q.double())


def test_strictly_layers_do_not_compute_attention_by_themselves():
    x, layer = cases.numbers(1, 2, 5, 16), torch.nn.MultiheadAttention(16, 2, batch_first=True)
    encoder = torch.nn.TransformerEncoderLayer(16, 2, batch_first=True)
    with torch.no_grad():
        for each in (layer.eval(), layer.train()):
            with replace_sdpa(strict=True) as block:
                each(x, x, x, need_weights=False)
                with pytest.raises(
                    NotImplementedError, match="need_weights=True, its default.*pass need_weights=False"
                ):
                    each(x, x, x)
                in_a_thread(lambda each=each: each(x, x, x))  # is not part of this block
            assert block.computed == 1
        expected = encoder.eval()(x)
        with replace_sdpa(strict=True) as block:
            torch.testing.assert_close(encoder(x), expected)
        assert block.computed == 1 and torch.backends.mha.get_fastpath_enabled()
        layer(x, x, x)


def test_function_modes_see_the_call():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), options=None):
            seen.append(function is functional.scaled_dot_product_attention)
            return function(*arguments, **(options or {}))

    seen, q = [], cases.numbers(1, 1, 2, 9, 16)
    with replace_sdpa(strict=True) as block, Mode():
        functional.scaled_dot_product_attention(q, q, q, scale=0.5)
    assert any(seen) and block.computed == 1


def test_arguments_of_later_versions_go_to_pytorch(monkeypatch):
    q, seen = cases.numbers(1, 1, 2, 9, 16), []
    monkeypatch.setattr(functional, "scaled_dot_product_attention", lambda *arguments, **options: seen.append(options))
    with replace_sdpa() as block:
        functional.scaled_dot_product_attention(q, q, q, window=3)
    assert seen == [{"window": 3}] and block.handed_back == {"window is not a known argument": 1}
    with pytest.raises(TypeError, match="window"):
        regard.torch.sdpa(q, q, q, window=3)


def causal(s):
    return torch.nn.Transformer.generate_square_subsequent_mask(s)


HIDDEN = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
X, MEMORY = cases.numbers(1, 2, 5, 16), cases.numbers(2, 2, 7, 16)
ATTENTION = {"embed_dim": 16, "num_heads": 2, "batch_first": True}
LAYER = {"d_model": 16, "nhead": 2, "dim_feedforward": 8, "batch_first": True, "dropout": 0.0}
SMALL = {"num_encoder_layers": 1, "num_decoder_layers": 1}
LAYERS = {
    "attention": (torch.nn.MultiheadAttention, ATTENTION, {}, 1),
    "padding": (torch.nn.MultiheadAttention, ATTENTION, {"key_padding_mask": HIDDEN}, 1),
    "causal": (torch.nn.MultiheadAttention, ATTENTION, {"attn_mask": causal(5), "is_causal": True}, 1),
    "causal and padding": (
        torch.nn.MultiheadAttention,
        ATTENTION,
        {"attn_mask": causal(5) < 0, "key_padding_mask": HIDDEN, "is_causal": True},
        1,
    ),
    "a mask of each head": (torch.nn.MultiheadAttention, ATTENTION, {"attn_mask": cases.numbers(3, 4, 5, 5)}, 1),
    "more keys": (torch.nn.MultiheadAttention, {**ATTENTION, "add_bias_kv": True, "add_zero_attn": True}, {}, 1),
    "encoder": (torch.nn.TransformerEncoderLayer, LAYER, {"src_key_padding_mask": HIDDEN}, 1),
    "causal encoder": (torch.nn.TransformerEncoderLayer, LAYER, {"src_mask": causal(5), "is_causal": True}, 1),
    "decoder": (
        torch.nn.TransformerDecoderLayer,
        LAYER,
        {"memory": MEMORY, "tgt_mask": causal(5), "tgt_is_causal": True},
        2,
    ),
    "transformer": (torch.nn.Transformer, {**LAYER, **SMALL}, {"tgt": MEMORY, "tgt_mask": causal(7)}, 3),
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_layers_of_pytorch_pass_is_computed(name):
    kind, sizes, options, calls = LAYERS[name]
    layer = kind(**sizes)
    if kind is torch.nn.MultiheadAttention:
        options = {"key": X, "value": X, "need_weights": False, **options}

    def outcome():
        x = leaf(X)
        o = layer(x, **options)
        o = o[0] if isinstance(o, tuple) else o
        return o, torch.autograd.grad(o.square().sum(), x)[0]

    expected = outcome()
    with replace_sdpa(strict=True) as block:
        got = outcome()
    assert block.computed == calls
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
