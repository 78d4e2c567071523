"""Latent attention in PyTorch's graphs: the same bits as eagerly, and what is not recorded is a sentence."""

import pytest

torch = pytest.importorskip("torch")
import regard.torch  # noqa: E402
from cached import ints, numbers  # noqa: E402
from latent_cases import LatentPages, close  # noqa: E402

pytestmark = [pytest.mark.no_compiler, pytest.mark.filterwarnings("ignore")]
LENGTHS, DV, SCALE = [9, 0, 6], 16, 0.2
attention, append = regard.torch.attention, regard.torch.append


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, **options):
    return torch.compile(function, fullgraph=True, **{"backend": "aot_eager", **options})


def keys(pages, apart):
    """k and the option that says which of its columns are v."""
    if not apart:
        return pages.k, {"dv": DV}
    return pages.k[..., :DV].clone(), {"k_rope": pages.k[..., DV:].clone()}


@pytest.mark.parametrize("apart", [False, True])
def test_attention(apart):
    pages, q = LatentPages(LENGTHS, 4), numbers(7, 3, 2, 4, 24)
    k, columns = keys(pages, apart)

    def call(q, k, columns, table, lengths):
        options = {**columns, "page_table": table, "lengths_k": lengths, "causal": True, "scale": SCALE}
        return attention(q, k, None, lse=True, **options)

    given = q, k, columns, pages.table, pages.lengths
    right = call(*given)
    for found, of_eager in zip(compiled(call)(*given), right):
        assert torch.equal(found, of_eager)
    close(right[0].flatten(0, 1), pages.expected(q.flatten(0, 1), [2] * 3, causal=True, scale=SCALE)[0])
    exported = torch.export.export(Module(call), given)
    assert torch.equal(exported.module()(*given)[0], right[0])


class Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def test_sizes_may_be_symbols():
    call = compiled(lambda q, k: attention(q, k, None, dv=DV, causal=True), dynamic=True)
    for s in (5, 9, 12):
        q, k = numbers(s, 2, s, 4, 24), numbers(s, 2, s + 1, 1, 24)
        assert torch.equal(call(q, k), attention(q, k, None, dv=DV, causal=True))


def append_and_attend(q, k, columns, new, table, lengths):
    append(k, None, new, None, **columns, lengths_k=lengths, page_table=table)
    return attention(q, k, None, **columns, lengths_k=lengths + new.shape[1], page_table=table)


def attend_with_new(q, k, columns, new, table, lengths):
    return attention(q, k, None, **columns, k_new=new, lengths_k=lengths, page_table=table)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("step", [append_and_attend, attend_with_new])
def test_a_compiled_step_changes_the_cache(step, apart):
    pages, q, new = LatentPages([9, 4, 6], 16), numbers(7, 3, 2, 4, 24), numbers(8, 3, 2, 1, 24)
    caches = [keys(LatentPages([9, 4, 6], 16), apart) for _ in range(2)]
    found = compiled(step)(q, *caches[0], new, pages.table, pages.lengths)
    right = step(q, *caches[1], new, pages.table, pages.lengths)
    assert torch.equal(found, right)
    for one, other in zip(*[[k, *columns.values()] if apart else [k] for k, columns in caches]):
        assert torch.equal(one.nan_to_num(9.0), other.nan_to_num(9.0))
    for i, length in enumerate([9, 4, 6]):
        place = pages.place(i, length + 1)
        assert torch.equal(caches[0][0][place], new[i, 1, :, : DV if apart else None])


def parts_of(rows):
    """Of 164 bytes: 128 numbers of V, their factor, and 16 columns in bf16."""
    k, factors = rows[..., :128].view(torch.float8_e4m3fn), rows[..., 128:132].view(torch.float32)
    return k, {"k_rope": rows[..., 132:].view(torch.bfloat16), "descale_k": factors}


@pytest.mark.parametrize("step", [append_and_attend, attend_with_new])
def test_a_compiled_step_changes_the_factors_of_columns(step):
    """The views of rows are made in the graph: PyTorch does not take several types of one memory as inputs."""
    pages, new = LatentPages([9, 4, 6], 16), numbers(8, 3, 2, 1, 144).bfloat16()
    q, found = numbers(7, 3, 2, 4, 144).bfloat16(), []

    def call(rows):
        return step(q, *parts_of(rows), new, pages.table, pages.lengths)

    for function in (call, compiled(call)):
        rows = torch.zeros(*pages.k.shape[:3], 164, dtype=torch.uint8)
        version = rows._version
        found.append((rows, function(rows)))
        assert rows._version > version
    assert all(torch.equal(*both) for both in zip(*found))
    k, others = parts_of(found[0][0])
    place, token = pages.place(0, 10), new[0, 1]
    factor = others["descale_k"][place]
    assert torch.equal(factor, (token[:, :128].float().abs().amax() / 448).reshape(1, 1))
    torch.testing.assert_close(k[place].float() * factor, token[:, :128].float(), rtol=0.07, atol=0.01)
    assert torch.equal(others["k_rope"][place], token[:, 128:])


def test_the_operators_are_sound():
    pages, q, new = LatentPages([9, 4, 6], 16), numbers(7, 3, 2, 4, 24), numbers(8, 3, 2, 1, 24)
    k = pages.k.nan_to_num(0.0)
    text = "{'lengths_k': 'tensor', 'page_table': 'tensor', 'dv': 'whole'}"
    options = [pages.lengths, pages.table], [DV], [], text
    of_cache = k, None, new, None, *options
    tests = ["test_schema", "test_faketensor"]
    for operator, inputs in (
        ("latent_attention", (q, k, *options)),
        ("latent_append", of_cache),
        ("latent_attention_appended", (q, *of_cache)),
    ):
        torch.library.opcheck(getattr(torch.ops.regard, operator).default, inputs, test_utils=tests)


def test_transforms():
    q, k = numbers(7, 3, 2, 2, 4, 24), numbers(8, 3, 2, 5, 1, 24)

    def call(q, k):
        return attention(q, k, None, dv=DV)

    found = torch.func.vmap(call)(q, k)
    for one, q_of, k_of in zip(found, q, k):
        assert torch.equal(one, call(q_of, k_of))
    with pytest.raises(NotImplementedError, match=r"latent attention \(v=None\) has no gradients"):
        torch.func.grad(lambda q: call(q, k[0]).sum())(q[0])
    with pytest.raises(NotImplementedError, match="no forward-mode differentiation"):
        torch.func.jvp(lambda q: call(q, k[0]), (q[0],), (q[0],))


def test_dropout_draws_from_the_generator():
    q, k = numbers(7, 2, 3, 4, 24), numbers(8, 2, 50, 1, 24)

    def call(**options):
        return attention(q, k, None, dv=DV, dropout=0.5, **options)

    one, other = (call(generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, call(generator=torch.Generator().manual_seed(6)))
    torch.manual_seed(3)
    assert not torch.equal(call(), call())


def test_fronts_in_graphs():
    from regard.aiter import mla
    from regard.flash_mla import flash_mla_with_kvcache, get_mla_metadata
    from regard.flashinfer import BatchMLAPagedAttentionWrapper

    pages, q = LatentPages([9, 4, 6], 4), numbers(7, 3, 4, 24)
    starts, k = ints(0, 1, 2, 3), pages.k.nan_to_num(0.0)
    run = BatchMLAPagedAttentionWrapper(torch.empty(1, dtype=torch.uint8))
    run.plan(starts, pages.indptr, pages.indices, pages.lengths, 4, DV, 8, 4, True, SCALE, q.dtype, q.dtype)
    lists = starts, pages.indptr, pages.indices, pages.last_page_len

    def call(q, k, o):
        metadata = get_mla_metadata()
        mla.mla_decode_fwd(q, k, o, *lists, 1, 4, sm_scale=SCALE)
        found = flash_mla_with_kvcache(q[:, None], k, pages.table, pages.lengths, DV, *metadata, softmax_scale=SCALE)
        ckv, kpe = k[:, :, 0, :DV], k[:, :, 0, DV:]
        return found[0][:, 0], run.run(q[..., :DV], q[..., DV:], ckv, kpe, return_lse=True)[0]

    memory = torch.empty(3, 4, DV)
    right = pages.expected(q, [1, 1, 1], scale=SCALE)[0]
    for found in (*compiled(call)(q, k, memory), memory):
        close(found, right)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"out": torch.empty(2, 3, 4, DV)}, "out is a tensor to write to, which a call that PyTorch"),
        ({"k_new": numbers(1, 2, 1, 1, 24), "lengths_k": ints(4, 4), "dropout_mask": True, "dropout": 0.5},
         "dropout_mask cannot be returned together with new tokens where PyTorch compiles"),
    ],
)  # fmt: skip
def test_what_graphs_do_not_take_is_said(options, sentence):
    q, k = numbers(7, 2, 3, 4, 24), numbers(8, 2, 9, 1, 24)
    with pytest.raises(Exception, match=sentence):
        compiled(lambda q, k: attention(q, k, None, dv=DV, **options))(q, k)
