"""regard.torch.function: Python functions as score= and keep= within torch.compile and torch.export."""

import pytest

torch = pytest.importorskip("torch")
from part import part_of  # noqa: E402
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch.nn.attention.flex_attention import create_block_mask  # noqa: E402

import regard.torch  # noqa: E402
from regard.torch.tracing import TRACES  # noqa: E402

attention, function = regard.torch.attention, regard.torch.function
pytestmark = [pytest.mark.no_compiler, pytest.mark.filterwarnings("ignore")]
H = 3


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def drawn(s=19, seed=0):
    return torch.randn(2, s, H, 8, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def layout(s, seed=0):
    return torch.randint(0, 4, (2, s), generator=torch.Generator().manual_seed(seed)).sort(-1).values


def alibi(slope):
    return lambda s, b, h, i, j: s - slope[h] * (i - j).abs()


def documents(doc):
    return lambda b, h, i, j: (doc[b, i] == doc[b, j]) & (j <= i)


def call(x, score, keep):
    return attention(x, x, x, score=score, keep=keep)


def outcome(f, *leaves):
    o = f(*leaves)
    return [o, *torch.autograd.grad(o.square().sum(), [x for x in leaves if x.requires_grad])]


def same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b) and a.dtype == b.dtype


# Lengths, seeds of the slopes, and seeds of the documents of 100 calls.
CALLS = {
    "lengths": lambda i: (9 + i, 0, 0),
    "closures": lambda i: (19, i, 0),
    "layouts": lambda i: (19, 0, i),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_hundred_calls_are_traced_and_compiled_once(what):
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(call, backend=graphs, fullgraph=True, dynamic=True)
    function(alibi(torch.rand(H))), function(documents(layout(5)))
    made = TRACES.made
    for i in part_of(range(100)):
        s, of_slope, of_doc = CALLS[what](i)
        score, keep = (
            alibi(torch.rand(H, generator=torch.Generator().manual_seed(of_slope))),
            documents(layout(s, of_doc)),
        )
        x = drawn(s, i)
        actual = outcome(lambda x: compiled(x, function(score), function(keep)), x)  # noqa: B023
        same(actual, outcome(lambda x: call(x, score, keep), x))  # noqa: B023
    assert graphs.frame_count == 1 and TRACES.made == made


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_are_those_of_eager_calls(backend):
    slope, c = torch.rand(H, requires_grad=True), torch.tensor(0.75, dtype=torch.bfloat16, requires_grad=True)
    table = torch.rand(5, requires_grad=True)

    def run(x, slope, c, table):
        def score(s, b, h, i, j):
            return s * c - slope[h] * table[(i - j) % 5 - 5]  # of the table's size

        keep = lambda b, h, i, j: (j <= i) | (slope[h] > 9)  # noqa: E731
        return score, keep

    attend = torch.compile(call, backend=backend, fullgraph=True)
    leaves = drawn(), slope, c, table
    expected = outcome(lambda x, *learned: call(x, *run(x, *learned)), *leaves)
    actual = outcome(lambda x, *learned: attend(x, *map(function, run(x, *learned))), *leaves)
    same(actual, expected)


def test_text_has_the_gradients_of_its_tensors():
    doc = layout(19)

    def text(x, slope, c):
        tensors = {"doc": doc, "slope": slope, "c": c}
        return attention(x, x, x, score="s*c-slope[h]*abs(kv-p)", keep="doc[b,q]==doc[b,kv]", tensors=tensors)

    leaves = drawn(), torch.rand(H, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    expected = outcome(text, *leaves)
    same(outcome(torch.compile(text, backend="aot_eager", fullgraph=True), *leaves), expected)
    bare = [x.detach() for x in leaves]
    same(torch.func.grad(lambda *x: text(*x).square().sum(), (0, 1, 2))(*bare), expected[1:])
    of_slope = torch.func.grad(lambda slope: text(bare[0], slope, bare[2]).square().sum())
    slopes = torch.rand(3, H)
    same(torch.func.vmap(of_slope)(slopes), [of_slope(slope) for slope in slopes])


def test_examples_of_vmap_are_sequences_of_their_own():
    x = torch.stack([drawn(seed=i).detach() for i in range(3)])
    call = lambda x: attention(x, x, x, score="s*float(b)")  # noqa: E731
    assert torch.equal(torch.func.vmap(call)(x), torch.stack([call(one) for one in x]))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.rand(H))
        self.register_buffer("doc", layout(64))
        self.score = function(lambda s, b, h, i, j: s - self.slope[h] * (i - j).abs())
        self.keep = function(self.sees)

    def sees(self, b, h, i, j):
        return self.doc[b, i] == self.doc[b, j]

    def forward(self, x):
        return attention(x, x, x, score=self.score, keep=self.keep)


@pytest.mark.parametrize("strict", [False, True])
def test_export(strict):
    block = Block()
    sizes = ({1: torch.export.Dim.AUTO},)
    program = torch.export.export(block, (drawn(),), dynamic_shapes=sizes, strict=strict).module()
    for s in (19, 7, 33):
        assert torch.equal(program(drawn(s)), block(drawn(s)))
    if strict:  # otherwise PyTorch makes constants of tensors that are not reached by the module's own attributes
        same(*(torch.autograd.grad(module(drawn()).square().sum(), module.slope) for module in (program, block)))


def test_it_is_a_function_outside_of_compiled_code_too():
    doc = layout(19)
    keep = function(documents(doc))
    expected = call(drawn(), None, documents(doc))
    assert torch.equal(call(drawn(), None, keep), expected)
    block_mask = create_block_mask(keep, 2, 1, 19, 19, device="cpu")
    q = drawn().transpose(1, 2)
    assert torch.equal(regard.torch.flex_attention(q, q, q, block_mask=block_mask).transpose(1, 2), expected)
    doc.copy_(layout(19, 1))  # it reads the tensor, not its first values
    assert torch.equal(call(drawn(), None, keep), call(drawn(), None, documents(layout(19, 1))))


CAUSAL = function(lambda b, h, i, j: j <= i)


@pytest.mark.parametrize(
    ("compiled", "sentence"),
    [
        (
            lambda x: call(x, None, lambda b, h, i, j: j <= i),
            r"function, which is not traced within what PyTorch compiles: pass regard.torch.function\(f",
        ),
        (
            lambda x: call(x, None, function(lambda b, h, i, j: j <= i)),
            "regard.torch.function traces a Python function, and is called within what PyTorch compiles; call it bef",
        ),
        (
            lambda x: call(x, CAUSAL, CAUSAL),
            r"score is a regard.torch.function of \(b, h, q_idx, kv_idx\), which is for keep; one for score takes",
        ),
    ],
)
def test_what_is_refused_within_compiled_code(compiled, sentence):
    with pytest.raises(torch._dynamo.exc.Unsupported, match=sentence):
        torch.compile(compiled, backend="eager", fullgraph=True)(drawn())


def test_a_graph_that_breaks_leaves_the_call_to_python():
    compiled = torch.compile(lambda x: call(x + 0, None, lambda b, h, i, j: j <= i), backend="eager")
    assert torch.equal(compiled(drawn()), attention(drawn(), drawn(), drawn(), causal=True))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: function("kv<=q"), "regard.torch.function takes a Python function, and this is of type str"),
        (lambda: function(lambda b, h: b), r"the function takes \(b, h\); it must take \(score, b, h, q_idx, kv_idx\)"),
        (
            lambda: function(lambda *places: places[0]),
            r"takes \(\*places\); it must .*, or purpose='score' or purpose='k",
        ),
        (lambda: function(documents(layout(5)), "mask"), "purpose is 'mask'; it must be 'score' or 'keep'"),
        (lambda: function(documents(layout(5)), "score"), "score takes 4 arguments; it must take"),
        (lambda: call(drawn(), function(documents(layout(5))), None), "which is for keep; one for score takes"),
        (lambda: function(lambda s, b, h, i, j: s.sum()), "calls aten.sum, which functions of scores and masks do not"),
    ],
)
def test_what_is_refused(call, sentence):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=sentence):
        call()


def test_the_number_of_arguments_says_what_it_is_unless_it_is_said():
    assert function(lambda b, h, i, j, window=3: i - j < window).purpose == "keep"
    assert function(lambda *places: places[3] <= places[2], "keep").text == "(kv<=q)"
