"""Tokens written into pages, and the helpers that say where."""

import itertools
import math

import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import Pages  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402

pytestmark = pytest.mark.no_compiler

HK, D = 2, 16
FORMS = ["tuple NHD", "one NHD", "tuple HND", "one HND", "interleaved NHD"]


def sides(cache, form):
    k, v = cache if isinstance(cache, tuple) else cache.unbind(1)
    return (k.transpose(1, 2), v.transpose(1, 2)) if form.endswith("HND") else (k, v)


@pytest.mark.parametrize(("form", "page"), list(itertools.product(FORMS, [1, 5, 16])))
def test_tokens_are_the_last_of_their_sequences(form, page):
    lengths, new = [5, 0, 16, 21], [2, 0, 7, 1]
    pages = Pages(lengths, page, HK, D)
    k, v = numbers(1, 12, HK, D), numbers(2, 12, HK, D)
    starts = torch.tensor([0, *new]).cumsum(0).to(torch.int32)
    seq_lens = flashinfer.get_seq_lens(pages.indptr, pages.last_page_len, page)
    assert torch.equal(seq_lens, pages.lengths)
    batch, positions = flashinfer.get_batch_indices_positions(starts, seq_lens, 12)
    assert batch.tolist() == [0] * 2 + [2] * 7 + [3] + [-1] * 2
    assert positions.tolist() == [3, 4, *range(9, 16), 20, 0, 0]
    cache = pages.cache(form)
    before = [x.clone() for x in sides(cache, form)]
    flashinfer.append_paged_kv_cache(k, v, batch, positions, cache, *pages.lists[1::-1], pages.last_page_len, form[-3:])
    for right, tokens in zip(before, (k, v)):
        for i, (sequence, row) in enumerate(zip(batch.tolist(), positions.tolist())):
            if sequence >= 0:
                right[pages.rows.place(sequence, row)] = tokens[i]
    for found, right in zip(sides(cache, form), before):
        assert torch.equal(found.nan_to_num(math.pi), right.nan_to_num(math.pi))


def test_strided_tokens_of_another_type():
    pages = Pages([3, 4], 2, HK, D)
    tokens = numbers(1, 2, HK, 3, D).to(torch.bfloat16)
    cache = pages.cache("tuple NHD", torch.bfloat16)
    flashinfer.append_paged_kv_cache(
        tokens[:, :, 0], tokens[:, :, 2], ints(1, 0), ints(0, 2), cache, *pages.lists[1::-1], pages.last_page_len
    )
    assert torch.equal(cache[0][pages.rows.place(1, 0)], tokens[0, :, 0])
    assert torch.equal(cache[1][pages.rows.place(0, 2)], tokens[1, :, 2])


def test_memory_for_the_helpers():
    batch, positions = torch.empty(4, dtype=torch.int32), torch.empty(4, dtype=torch.int32)
    found = flashinfer.get_batch_indices_positions(ints(0, 1, 3), torch.tensor([5, 6]), 4, batch, positions)
    assert found[0] is batch and found[1] is positions
    assert batch.tolist() == [0, 1, 1, -1] and positions.tolist() == [4, 4, 5, 0]
    empty = flashinfer.get_batch_indices_positions(ints(0), ints(), 2)
    assert [x.tolist() for x in empty] == [[-1, -1], [0, 0]]


def test_nothing_to_write():
    k, v = torch.zeros(3, 2, HK, D), torch.zeros(3, 2, HK, D)
    token = numbers(1, 1, HK, D)
    flashinfer.append_paged_kv_cache(token, token, ints(-1), ints(0), (k, v), ints(), ints(0, 0), ints(0))
    flashinfer.append_paged_kv_cache(token[:0], token[:0], ints(), ints(), (k, v), ints(1), ints(0, 1), ints(1))
    assert not k.any() and not v.any()
