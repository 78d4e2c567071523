"""Packing and padding of batches."""

import pytest

torch = pytest.importorskip("torch")
from regard.flash_attn.bert_padding import (  # noqa: E402
    index_first_axis,
    index_first_axis_residual,
    index_put_first_axis,
    pad_input,
    unpad_input,
    unpad_input_for_concatenated_sequences,
)


@pytest.mark.parametrize("kind", [torch.bool, torch.int32, torch.int64])
def test_tokens_go_and_come_back(kind):
    x = torch.randn(3, 5, 2, 4, requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).to(kind)
    tokens, indices, starts, longest, used = unpad_input(x, mask)
    assert torch.equal(tokens, x[mask.bool()]) and longest == 4
    assert starts.tolist() == [0, 3, 3, 7] and starts.dtype == torch.int32
    assert used.tolist() == [3, 0, 4] and used.dtype == torch.int32
    back = pad_input(tokens, indices, 3, 5)
    assert torch.equal(back, x * mask[..., None, None])
    back.sum().backward()
    assert torch.equal(x.grad, mask[..., None, None].expand_as(x).to(x.dtype))


def test_unused_tokens_keep_their_place():
    x = torch.arange(8.0).reshape(2, 4, 1)
    mask, unused = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]]), torch.tensor([[0, 0, 1, 0], [0, 0, 0, 1]])
    tokens, indices, starts, longest, used = unpad_input(x, mask, unused)
    assert indices.tolist() == [0, 1, 2, 4, 7] and starts.tolist() == [0, 3, 5] and longest == 3
    assert used.tolist() == [2, 1]


def test_several_sequences_in_a_row():
    x = torch.randn(3, 6, 2)
    lengths = torch.tensor([[2, 3, 0, 0, 0, 0], [3, 2, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0]])
    tokens, indices, starts, longest = unpad_input_for_concatenated_sequences(x, lengths)
    assert starts.tolist() == [0, 2, 5, 8, 10, 16] and longest == 6
    assert indices.tolist() == [*range(5), *range(6, 11), *range(12, 18)]
    assert torch.equal(tokens, x.flatten(0, 1)[indices])


def test_rows_by_index():
    x, indices = torch.randn(5, 3, 2, dtype=torch.float64, requires_grad=True), torch.tensor([4, 0, 2])
    assert torch.equal(index_first_axis(x, indices), x[indices])
    assert torch.autograd.gradcheck(lambda t: index_first_axis(t, indices), x)
    assert torch.autograd.gradcheck(lambda t: index_put_first_axis(t, indices, 7), x[:3].detach().requires_grad_())
    rows, whole = index_first_axis_residual(x, indices)
    assert torch.equal(rows, x[indices]) and torch.equal(whole, x)


def test_an_empty_batch():
    tokens, indices, starts, longest, used = unpad_input(torch.randn(0, 4, 2), torch.ones(0, 4, dtype=torch.bool))
    assert tokens.shape == (0, 2) and starts.tolist() == [0] and longest == 0 and used.shape == (0,)
