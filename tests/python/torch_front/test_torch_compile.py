"""torch.compile, torch.export and tracers record calls as operators, which give the same results as eager calls."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402
from torch._dynamo.testing import CompileCounter, EagerAndRecordGraphs  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import regard.torch  # noqa: E402
from regard.torch.encoding import encode  # noqa: E402

attention, attention_varlen = regard.torch.attention, regard.torch.attention_varlen
pytestmark = [pytest.mark.no_compiler, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


def outcome(function, leaves):
    """Results and gradients, with PyTorch's random numbers from one seed."""
    leaves = [x.clone().requires_grad_() for x in leaves]
    torch.manual_seed(3)
    o = function(*leaves)
    return [o, *torch.autograd.grad(o.float().square().sum(), leaves)]


def same(one, other, exactly=True):
    for a, b in zip(one, other):
        if exactly:
            assert torch.equal(a, b) and a.stride() == b.stride()
        else:
            torch.testing.assert_close(a, b)


def inputs(shape="usual"):
    return cases.inputs(shape)[:3]


# One of each kind of option: none, text, numbers, pairs, learned tensors and others.
FEATURES = ("top left", "mask", "window", "softcap", "bias of keys", "sink", "bits", "lengths", "seed of a tensor")


@pytest.mark.parametrize("feature", FEATURES)
def test_features_compile_without_a_graph_break(feature):
    leaves = inputs()
    options, _ = cases.FEATURES[feature](33, 47)
    learned = [name for name in ("bias", "sink") if name in options]
    fixed = {name: x for name, x in options.items() if name not in learned}

    def call(q, k, v, *rest):
        return attention(q, k, v, **fixed, **dict(zip(learned, rest)))

    leaves += [options[name] for name in learned]
    same(outcome(call, leaves), outcome(compiled(call), leaves))


def test_inductor():
    def call(q, k, v):
        return attention(q * 2, k + 1, v, causal=True).sin()

    same(outcome(call, inputs()), outcome(compiled(call, backend="inductor"), inputs()), exactly=False)


def test_results_besides_o():
    def call(q, k, v):
        return attention(q, k, v, dropout=0.2, seed=5, lse=True, dropout_mask=True)

    same(call(*inputs()), compiled(call)(*inputs()))


def test_sizes_and_options_may_be_symbols():
    graphs = CompileCounter()
    dense = compiled(lambda q, k, w: attention(q, k, k, window=(w, 0), lse=True), dynamic=True, backend=graphs)
    for s in (9, 12, 15):
        q, k = cases.numbers(s, 2, s, 4, 16), cases.numbers(s, 2, s + 1, 2, 16)
        same(attention(q, k, k, window=(s, 0), lse=True), dense(q, k, s))
    assert graphs.frame_count == 1

    def packed(q, offsets, longest):
        return attention_varlen(q, q, q, offsets, offsets, longest, longest, causal=True)

    traced = compiled(packed, dynamic=True)
    for s in (9, 12):
        offsets = cases.whole(0, 5, s + 5)
        call = [lambda q, f=f, offsets=offsets, s=s: f(q, offsets, s) for f in (packed, traced)]
        same(*(outcome(function, [cases.numbers(s, s + 5, 4, 16)]) for function in call))


def test_dropout_draws_from_pytorch_s_generator():
    def call(q, k, v):
        return attention(q, k, v, dropout=0.3)

    same(outcome(call, inputs()), outcome(compiled(call), inputs()))

    def kept(q, k, v):
        return checkpoint(call, q, k, v, use_reentrant=False)

    same(outcome(kept, inputs()), outcome(compiled(kept), inputs()))
    generator = torch.Generator()
    with pytest.raises(Exception, match="generator is given to a call that torch.compile compiles"):
        compiled(lambda q, k, v: attention(q, k, v, dropout=0.3, generator=generator))(*inputs())


def test_autocast():
    def call(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return attention(q, k, v, bias=q.new_ones(33, 47)).to(torch.bfloat16)

    o, *grads = outcome(call, inputs())
    assert o.dtype == torch.bfloat16 and grads[0].dtype == torch.float32
    same([o, *grads], outcome(compiled(call), inputs()))


def test_sdpa_and_what_replaces_it():
    def call(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        mask = torch.arange(47) < 40
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask.expand(33, 47), enable_gqa=True)

    graphs = []

    def backend(graph, _):
        graphs.append(str(graph.graph))
        return graph

    function = compiled(call, backend=backend)
    for replaced in (True, False, True):
        if replaced:
            with regard.torch.replace_sdpa():
                same([call(*inputs())], [function(*inputs())])
        else:
            same([call(*inputs())], [function(*inputs())])
    assert ["regard.attention" in graph for graph in graphs] == [True, False]


class Module(torch.nn.Module):
    def forward(self, q, k, v):
        return attention(q, k, v, causal=True)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    q, k, v = inputs()
    auto = torch.export.Dim.AUTO
    sizes = ({0: auto, 1: auto},) * 3
    program = torch.export.export(Module(), (q, k, v), dynamic_shapes=sizes, strict=strict)
    assert torch.equal(program.module()(q, k, v), Module()(q, k, v))
    short = q[:1, :5], k[:1, :8], v[:1, :8]
    assert torch.equal(program.module()(*short), Module()(*short))


class Masked(torch.nn.Module):
    def forward(self, q, k, v, mask):
        return regard.torch.sdpa(q, k, v, attn_mask=mask)


@pytest.mark.parametrize("strict", [False, True])
def test_export_with_booleans_of_any_number_of_keys(strict):
    def given(sq, sk):
        return *(cases.numbers(i, 2, 3, s, 16) for i, s in enumerate((sq, sk, sk))), cases.numbers(3, 2, 1, sq, sk) < 1

    any_ = torch.export.Dim.DYNAMIC
    sizes = ({2: any_},) * 3 + ({2: any_, 3: any_},)
    program = torch.export.export(Masked(), given(40, 50), dynamic_shapes=sizes, strict=strict).module()
    for sq, sk in ((5, 7), (2, 32), (33, 64), (40, 71)):
        assert torch.equal(program(*given(sq, sk)), Masked()(*given(sq, sk)))
    q, *others = given(5, 7)
    same(*(outcome(lambda q, f=f: f(q, *others), [q]) for f in (program, Masked())))


def test_replaced_attention_that_is_refused_compiles():
    def call(q, p):
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=p)

    graphs = EagerAndRecordGraphs()
    traced = compiled(call, dynamic=True, backend=graphs)
    with regard.torch.replace_sdpa():
        for d, p in ((16, 0.0), (24, 0.5), (24, 1.0), (600, 0.0)):
            q = [cases.numbers(1, 1, 2, 9, d)]
            same(*(outcome(lambda q, f=f, p=p: f(q, p), q) for f in (call, traced)))  # noqa: B023
            assert ("regard.attention" in str(graphs.graphs[-1].graph)) == (d < 600 and p < 1)


TRACERS = {
    "make_fx": lambda f, x: make_fx(f)(*x),
    "symbolic": lambda f, x: make_fx(f, tracing_mode="symbolic")(*x),
    "jit": lambda f, x: torch.jit.trace(f, tuple(x), check_trace=False),
}


@pytest.mark.parametrize("tracer", TRACERS)
def test_tracers(tracer):
    def call(q, k, v):
        return attention(q, k, v, window=(5, 0))

    traced = TRACERS[tracer](call, inputs())
    others = [x + 1 for x in inputs()]
    assert torch.equal(traced(*others), call(*others))


def test_tensors_without_memory_give_such_results():
    q, k, v = (x.to("meta") for x in inputs())
    o, lse = attention(q, k, v, lse=True)
    assert o.is_meta and o.shape == (2, 33, 4, 40) and lse.shape == (2, 4, 33)
    with torch._subclasses.FakeTensorMode() as mode:
        o = attention(*(mode.from_tensor(x) for x in inputs()))
        assert isinstance(o, torch._subclasses.FakeTensor)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(dtype, packed):
    options = {"scale": 0.5, "sink": cases.numbers(4, 4).requires_grad_(), "window": (4, 0)}
    q, k, v = (x.to(dtype) for x in inputs())
    if packed:
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        options |= {"offsets_q": cases.whole(0, 33, 66), "offsets_k": cases.whole(0, 47, 94), "sq": 33, "sk": 47}
    else:
        options["bias"] = cases.numbers(5, 4, 33, 47).to(dtype).requires_grad_()  # of three dimensions
    encoded = encode(options)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    torch.library.opcheck(torch.ops.regard.attention.default, (*leaves, *encoded))
    bare = [x.detach() for x in (*leaves, *encoded.tensors)]
    o, lse, *_ = torch.ops.regard.attention(*bare[:3], bare[3:], *encoded[1:])
    arguments = (
        cases.numbers(6, *o.shape).to(dtype),
        *bare[:3],
        o,
        lse,
        bare[3:],
        *encoded[1:],
        "sink" if packed else "sink,bias",
    )
    torch.library.opcheck(torch.ops.regard.attention_backward.default, arguments)


class Gathered(torch.nn.Module):
    """For a batch whose size depends on data."""

    def __init__(self, axes, replaced):
        super().__init__()
        self.axes, self.replaced = axes, replaced

    def forward(self, x, chosen, mask):
        chosen = torch.nonzero(chosen).squeeze(1)
        x, mask = x[chosen], mask[chosen]
        if self.axes == 3:
            return regard.torch.sdpa(x[:, 0], x[:, 0], x[:, 0], mask[:, 0])
        if self.replaced:
            with regard.torch.replace_sdpa():
                return torch.nn.functional.scaled_dot_product_attention(x, x[:, :1], x[:, :1], mask)
        return regard.torch.sdpa(x, x, x, mask)


@pytest.mark.parametrize(("axes", "replaced"), [(4, False), (4, True), (3, False)])
def test_export_of_a_batch_that_depends_on_data(axes, replaced):
    module, x, mask = Gathered(axes, replaced), cases.numbers(1, 5, 4, 9, 16), cases.numbers(2, 5, 1, 9, 9) < 1
    chosen = torch.tensor([1, 0, 1, 1, 0]) > 0
    program = torch.export.export(module, (x, chosen, mask), strict=False).module()
    for some in (chosen, ~chosen):
        assert torch.equal(program(x, some, mask), module(x, some, mask))


class Options(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v, bias):
        return attention(q, k, v, bias=bias, **self.options) if self.options else attention(q, k, v)


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"scale": 0.5, "window": (3, 0)}])
def test_exported_calls_have_no_empty_lists(options):
    """AOTInductor would not pass those on, and its programs would fail at run time."""
    given = (*inputs(), cases.numbers(5, 4, 33, 47))
    program = torch.export.export(Options(**options), given)
    (call,) = [node for node in program.graph.nodes if node.target is torch.ops.regard.attention.default]
    assert all(argument for argument in call.args[3:])
    leaves = given if options else given[:3]
    functions = [lambda *x, f=f: f(*x, *given[len(x) :]) for f in (program.module(), Options(**options))]
    same(*(outcome(function, leaves) for function in functions))
