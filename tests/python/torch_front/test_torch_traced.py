"""Python functions as score= and keep=: traced to the text that says the same."""

import gc
import sys
import types
import weakref
from pathlib import Path

import numpy
import pytest
import torch
from torch.nn.attention.flex_attention import and_masks, or_masks

import regard.torch
from flex_functions import KEEPS, SCORES, B, H, S, doc, kind, sink, slope
from regard.functions import LANGUAGE_TYPES
from regard.functions.torch_trace import Traces
from regard.functions.tree import Named, filled
from regard.torch.tracing import TRACES, with_text

CPU = torch.device("cpu")
ALL = [("keep", name) for name in KEEPS] + [("score", name) for name in SCORES]


def of_name(purpose, name):
    return (KEEPS if purpose == "keep" else SCORES)[name]


def traced(purpose, function):
    return Traces().of(purpose, function, CPU)


def canonical(purpose, text, tensors):
    names = [Named(f"t{i}", tensor.shape) for i, tensor in enumerate(tensors)]
    types = [LANGUAGE_TYPES[str(tensor.dtype)[6:]] for tensor in tensors]
    declared = ",".join(f"{name}:{kind}[{len(name.shape)}]" for name, kind in zip(names, types))
    words = f" tensors={declared}" if declared else ""
    return regard.Problem(f'fwd fp32 b=2 h=3 s=48 d=8 {purpose}="{filled(text, names)}"{words}').text


def drawn(heads=H):
    torch.manual_seed(5)
    return [torch.randn(B, S, n, 8, requires_grad=True) for n in (H, heads, heads)]


def test_there_are_31():
    assert len(ALL) == 31


@pytest.mark.parametrize(("purpose", "name"), ALL)
def test_a_function_is_the_text_that_says_the_same(purpose, name):
    function, text = of_name(purpose, name)
    found = traced(purpose, function)
    tensors = [tensor for tensor, _, _ in found.tensors]
    assert canonical(purpose, found.text, tensors) == canonical(purpose, text, tensors)


def test_the_page_of_the_gallery_has_them():
    sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))
    import function_gallery

    page = function_gallery.PAGE.read_text()
    assert page == function_gallery.updated(page), "run tools/function_gallery.py"


def formula(q, k, v, score=None, keep=None):
    """Attention by the same functions, of all places at once."""
    s = torch.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    places = torch.meshgrid(*[torch.arange(n, dtype=torch.int32) for n in s.shape], indexing="ij")
    s = s if score is None else score(s, *places)
    s = s if keep is None else torch.where(keep(*places), s, -torch.inf)
    return torch.einsum("bhqk,bkhd->bqhd", s.softmax(-1).nan_to_num(), v)


@pytest.mark.parametrize(("purpose", "name"), ALL)
def test_results_are_those_of_the_function(purpose, name):
    function = {purpose: of_name(purpose, name)[0]}
    with torch.no_grad():
        q, k, v = drawn()
        torch.testing.assert_close(regard.torch.attention(q, k, v, **function), formula(q, k, v, **function))


def test_gradients_are_those_of_autograd():
    inputs = drawn()
    learned = [torch.rand(H, requires_grad=True), torch.rand(25, requires_grad=True)]

    def score(s, b, h, q, kv):
        return s * learned[0][h] + learned[1][(q - kv).clamp(-12, 12) + 12] * learned[0].detach()[h]

    def keep(b, h, q, kv):
        return (doc[b, q] == doc[b, kv]) & (learned[0][h] > -1)

    grad_o = torch.randn(B, S, H, 8)
    of_ours = torch.autograd.grad(regard.torch.attention(*inputs, score=score, keep=keep), inputs + learned, grad_o)
    of_theirs = torch.autograd.grad(formula(*inputs, score, keep), inputs + learned, grad_o)
    for ours, theirs in zip(of_ours, of_theirs):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_functions_and_text_go_together():
    q, k, v = drawn()
    w = torch.rand(H)
    expected = regard.torch.attention(
        q, k, v, score="s*w[h]", keep="doc[b,q]==doc[b,kv]&&w[h]>0.0", tensors={"w": w, "doc": doc}
    )
    actual = regard.torch.attention(
        q,
        k,
        v,
        score=lambda s, b, h, i, j: s * w[h],
        keep="doc[b,q]==doc[b,kv]&&w[h]>0.0",
        tensors={"w": w, "doc": doc},
    )
    assert torch.equal(actual, expected)


def test_an_index_from_the_end_counts_from_the_end():
    w = torch.rand(5)
    assert traced("score", lambda s, b, h, q, kv: s + w[-2]).text == "(s+{0}[((-2)+{0.shape[0]})])"
    q, k, v = drawn()
    shift = torch.arange(2 * S, dtype=torch.float32)
    with torch.no_grad():
        function = {"score": lambda s, b, h, q, kv: s + shift[q - kv] * 0.1}  # negative above the diagonal
        torch.testing.assert_close(regard.torch.attention(q, k, v, **function), formula(q, k, v, **function))


def test_a_new_closure_is_not_traced_again():
    q, k, v = drawn()

    def biased(tensor, window):
        return lambda s, b, h, i, j: torch.where(i - j < window, s + tensor[h, j % 7], -1.5)

    regard.torch.attention(q, k, v, score=biased(torch.rand(H, 7), 9))
    made = TRACES.made
    for length in range(8, 40):
        w = torch.rand(H, length)
        o = regard.torch.attention(q, k, v, score=biased(w, 9))
        assert TRACES.made == made
    expected = regard.torch.attention(q, k, v, score="where(q-kv<9,s+w[h,kv%7],-1.5)", tensors={"w": w})
    assert torch.equal(o, expected)
    regard.torch.attention(q, k, v, score=biased(w.bfloat16(), 9))
    assert TRACES.made == made + 1
    o = regard.torch.attention(q, k, v, score=biased(w, 10))  # another constant is another text until it is a number
    assert TRACES.made == made + 2
    assert not torch.equal(o, expected)


def test_sizes_that_a_function_reads_are_part_of_its_trace():
    traces = Traces()

    def of(table):
        return traces.of("score", lambda s, b, h, q, kv: s + table[kv % len(table)], CPU).text

    assert [of(torch.rand(n)) for n in (5, 6, 5, 6)] == [f"(s+{{0}}[(kv%{n})])" for n in (5, 6, 5, 6)]
    assert traces.made == 2


class Config:
    def __init__(self, window, slope):
        self.window, self.slope = window, slope

    @property
    def twice(self):
        return 2 * self.window

    def keep(self, b, h, q, kv):
        return (q - kv < self.twice) & (self.slope[h] < 9)


class Window:
    def __init__(self, size):
        self.size = size

    def __call__(self, b, h, q, kv):
        return q - kv < self.size


class Kept:
    def __init__(self, *keys):
        self.keys = keys

    def __iter__(self):
        return iter(self.keys)


def one_of(keys):
    def keep(b, h, q, kv):
        seen = kv < 0
        for key in keys:
            seen = seen | (kv == key)
        return seen

    return keep


def by_text(window):
    return lambda b, h, q, kv: q - kv < getattr(window, "size")  # noqa: B009


def of_attribute(b, h, q, kv):
    return q - kv < of_attribute.size


def times(factor):
    return lambda s, b, h, q, kv: s + q * factor


class Class:
    n = 5


WINDOW = 3


def of_global(b, h, q, kv):
    return q - kv < WINDOW


def test_what_a_function_depends_on_is_in_its_key(monkeypatch):
    traces = Traces()
    config = Config(3, slope)
    assert traces.of("keep", config.keep, CPU).text == traces.of("keep", Config(3, slope + 1).keep, CPU).text
    assert traces.made == 1
    config.window = 4
    assert "<8" in traces.of("keep", config.keep, CPU).text and traces.made == 2
    assert "<3" in traces.of("keep", of_global, CPU).text
    monkeypatch.setitem(globals(), "WINDOW", 11)
    assert "<11" in traces.of("keep", of_global, CPU).text
    of_class = lambda b, h, q, kv: q < Class.n  # noqa: E731
    assert "<5" in traces.of("keep", of_class, CPU).text
    monkeypatch.setattr(Class, "n", 6)
    assert "<6" in traces.of("keep", of_class, CPU).text
    inner = types.SimpleNamespace(n=[5])
    assert "<5" in traces.of("keep", lambda b, h, q, kv: q < inner.n[0], CPU).text
    inner.n[0] = 6
    assert "<6" in traces.of("keep", lambda b, h, q, kv: q < inner.n[0], CPU).text
    assert [f"<{n}" in traces.of("keep", Window(n), CPU).text for n in (3, 5)] == [True, True]
    assert ["4" in traces.of("keep", one_of(Kept(key)), CPU).text for key in (1, 4)] == [False, True]
    assert [f"<{n}" in traces.of("keep", by_text(Window(n)), CPU).text for n in (3, 5)] == [True, True]
    for size in (3, 5):
        of_attribute.size = size
        assert f"<{size}" in traces.of("keep", of_attribute, CPU).text
    scaled = [traces.of("score", times(c), CPU) for c in (numpy.int32(2), numpy.float32(2))]
    assert scaled[0].text != scaled[1].text
    a, b = torch.rand(3), torch.rand(3)
    one = traces.of("score", (lambda x, y: lambda s, b, h, q, kv: s + x[h] * y[h])(a, a), CPU)
    two = traces.of("score", (lambda x, y: lambda s, b, h, q, kv: s + x[h] * y[h])(a, b), CPU)
    assert len(one.tensors) == 1 and len(two.tensors) == 2


class Documents:
    def __init__(self, doc, window):
        self.doc, self.window = doc, window

    def __call__(self, b, h, q, kv):
        return (self.doc[b, q] == self.doc[b, kv]) & (q - kv < self.window)


def test_an_object_that_can_be_called_is_a_function():
    traces = Traces()
    one = traces.of("keep", Documents(doc, 3), CPU)
    assert one.text == "(({0}[b,q]=={0}[b,kv])&&((q-kv)<3))" and one.tensors[0][0] is doc
    assert traces.of("keep", Documents(doc + 1, 3), CPU).text == one.text and traces.made == 1
    within = traces.of("keep", and_masks(Documents(doc, 4), regard.torch.function(KEEPS["causal"][0])), CPU)
    assert canonical("keep", within.text, [doc]) == canonical("keep", "{0}[b,q]=={0}[b,kv]&&q-kv<4&&q>=kv", [doc])


def test_closures_are_not_kept_alive():
    class Token:
        pass

    token = Token()
    alive = weakref.ref(token)
    w = torch.rand(H)
    w.token = token
    Traces().of("score", (lambda w: lambda s, b, h, q, kv: s + w[h])(w), CPU)
    del w, token
    gc.collect()
    assert alive() is None


def test_masks_of_masks():
    sees = and_masks(KEEPS["causal"][0], or_masks(KEEPS["documents"][0], lambda b, h, q, kv: kv < 2))
    found = traced("keep", sees)
    assert canonical("keep", found.text, [doc]) == canonical("keep", "kv<=q&&({0}[b,q]=={0}[b,kv]||kv<2)", [doc])


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda s, b, h, q, kv: torch.div(q - kv, 3, rounding_mode="trunc"),
            "x=q-kv;y=abs(x)//3;float(where((x<0)!=(3<0),-y,y))",
        ),
        (lambda s, b, h, q, kv: (q - kv).fmod(3), "x=q-kv;y=abs(x)%3;float(where(x<0,-y,y))"),
        (lambda s, b, h, q, kv: 1 / s + s.trunc(), "1.0/s+where(s<0.0,ceil(s),floor(s))"),
        (lambda s, b, h, q, kv: s + ((q > kv) + (h > 1)), "s+float(q>kv||h>1)"),
        (lambda s, b, h, q, kv: s * (q > kv) * ~(q == 3), "s*float(kv<q)*float(q!=3)"),
        (lambda s, b, h, q, kv: torch.rsub(s, 2, alpha=3) - s.pow(3), "2-s*3-s*s*s"),
        (lambda s, b, h, q, kv: s.int().float() + s.bool(), "float(int(s))+float(s!=0.0)"),
        (lambda s, b, h, q, kv: s.masked_fill(q < kv, -1e9).clamp_max(3.5), "min(where(q<kv,-1e9,s),3.5)"),
        (lambda s, b, h, q, kv: torch.relu(s) ** 0.5 + torch.tensor(2.5), "sqrt(max(s,0.0))+2.5"),
        (lambda s, b, h, q, kv: torch.zeros_like(s) + 2.0**s, "0.0+pow(2.0,s)"),
        (lambda s, b, h, q, kv: torch.nn.functional.silu(s) + q.tan(), "s*sigmoid(s)+sin(float(q))/cos(float(q))"),
    ],
)
def test_operations(function, text):
    assert canonical("score", traced("score", function).text, []) == canonical("score", text, [])
    places = [torch.tensor(0.75), *[torch.tensor(n, dtype=torch.int32) for n in (1, 2, 5, 7)]]
    assert function(*places).isfinite()


def test_operations_in_place():
    def score(s, b, h, q, kv):
        s += slope[h]
        s *= 2
        return s.sub_(kv)

    assert traced("score", score).text == "(((s+{0}[h])*2)-kv)"


def test_what_is_computed_for_nothing_is_not_read():
    def score(s, b, h, q, kv):
        _ = slope[h] * 2
        return s + sink[h]

    found = traced("score", score)
    assert found.text == "(s+{0}[h])" and [tensor is sink for tensor, _, _ in found.tensors] == [True]


def branch(b, h, q, kv):
    if q > kv:
        return kv < 3
    return kv < 4


def loop(b, h, q, kv):
    seen = kv < 0
    for i in range(q):
        seen |= kv == i
    return seen


@pytest.mark.parametrize(
    ("purpose", "function", "sentence"),
    [
        ("keep", branch, r"keep: line \d+ of test_torch_traced.py, 'if q > kv:', branches on data; torch.where\(cond"),
        (
            "keep",
            loop,
            r"line \d+ of test_torch_traced.py, 'for i in range\(q\):', needs data as a Python number, as lo",
        ),
        ("score", lambda s, b, h, q, kv: s + slope.sum(), "calls aten.sum, which functions of scores and masks do not"),
        ("score", lambda s, b, h, q, kv: s + slope @ slope, "calls aten.dot, .*; close over the products, indexed by"),
        (
            "score",
            lambda s, b, h, q, kv: s + torch.rand(()),
            "calls aten.rand, .*; as a random number, take an integer",
        ),
        ("keep", lambda b, h, q, kv: torch.isin(q, doc), "calls aten.isin, .*; write its terms out, or do it outside"),
        ("keep", lambda b, h, q, kv: torch.searchsorted(doc[0], q) < 3, "calls aten.searchsorted, .* write its terms"),
        ("keep", lambda b, h, q, kv: doc[b, :q].any(), "indexes a tensor with slice|needs data as a Python number"),
        ("score", lambda s, b, h, q, kv: s + (2 * slope)[h], "works on a whole tensor; index it first, or do this"),
        ("score", lambda s, b, h, q, kv: s + slope[0:2][h], "indexes a tensor with slice\\(0, 2, None\\); an index is"),
        ("score", lambda s, b, h, q, kv: s + slope[s], "indexes a tensor with fp32; an index is a whole number"),
        ("keep", lambda b, h, q, kv: doc[kind[b, q], kv] < 1, "with torch.uint8, which PyTorch reads as a mask; conv"),
        ("score", lambda s, b, h, q, kv: s + slope[h, q], "gives 2 indices to a tensor of 1 dimensions"),
        ("score", lambda s, b, h, q, kv: s + slope.add_(1)[h], "changes a tensor that it closes over|whole tensor"),
        ("score", lambda s, b, h, q, kv: s + torch.special.erf(s), "aten.erf, .*; do it outside, and close over a"),
        ("score", lambda s, b, h, q, kv: s + s.double(), "computes in torch.float64; functions compute in float32"),
        ("score", lambda s, b, h, q, kv: s.half(), "calls aten._to_copy to round to torch.float16"),
        (
            "score",
            lambda s, b, h, q, kv: (s * 2).detach(),
            "detaches what it computed, and only tensors that it closes",
        ),
        (
            "score",
            lambda s, b, h, q, kv: s + torch.arange(9)[h],
            "indexes a tensor that is not closed over; close over",
        ),
        ("keep", lambda b, h, q, kv: q.long() * 2654435761 > kv, "2654435761 is not an int32, and functions"),
        (
            "keep",
            lambda b, h, q, kv: q**h < 3,
            "calls aten.pow with whole numbers, which only fp32 has here; write pro",
        ),
        ("score", lambda s, b, h, q, kv: s + slope.double()[h], "whole tensor"),
        (
            "keep",
            lambda b, h, q, kv: kv,
            "keep returns torch.int32; it must return a condition, such as kv_idx <= q_idx",
        ),
        ("keep", lambda b, h, q, kv: True, "keep returns True; it must return a tensor without dimensions"),
        ("score", lambda s, b, h, q, kv: slope, "score returns a tensor of 1 dimensions; it must have none"),
        ("keep", lambda s, b, h, q, kv: q < kv, "keep takes 5 arguments; it must take \\(b, h, q_idx, kv_idx\\)"),
        ("keep", torch.nn.Identity(), "keep is of type Identity; it must be text or a Python function"),
    ],
)
def test_what_is_refused(purpose, function, sentence):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        traced(purpose, function)


def test_a_tensor_that_is_reached_by_no_name_is_refused():
    class Reader:
        def __init__(self):
            self.__dict__["secret"] = torch.tensor(2.0)

        def __getitem__(self, i):
            return vars(self)["sec" + "ret"]

    reader = Reader()
    with pytest.raises(NotImplementedError, match="reads a tensor that is reached in another way than by names"):
        traced("score", lambda s, b, h, q, kv: s + reader[0])


def test_a_tensor_of_a_type_that_functions_do_not_read():
    q, k, v = drawn()
    wide = torch.rand(H, dtype=torch.float64)
    with pytest.raises(NotImplementedError, match="reads a tensor of torch.float64; functions read float32, bfloat16"):
        regard.torch.attention(q, k, v, score=lambda s, b, h, i, j: s + wide[h])


def test_names_of_tensors_are_those_of_the_function():
    h = torch.rand(4)
    options = {
        "score": lambda s, b, head, i, j: s + slope[head] + h[-1],
        "keep": lambda b, head, i, j: slope[head] > 0,
        "tensors": {"h_": doc},
    }
    found = with_text(options, h)
    assert found["score"] == "((s+slope_[h])+h__[((-1)+{h__.shape[0]})])" and found["keep"] == "(slope_[h]>0)"
    assert found["tensors"] == {"h_": doc, "slope_": slope, "h__": h}
    by_number = {0: slope}
    found = with_text({"score": lambda s, b, head, i, j: s + by_number[0][head]}, h)
    assert found["tensors"] == {"x0_": slope} and found["score"] == "(s+x0_[h])"
