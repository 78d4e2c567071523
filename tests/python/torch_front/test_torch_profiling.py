"""How PyTorch's profiler and its FLOP counter show a call."""

import pytest

torch = pytest.importorskip("torch")
import torch_cases as cases  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

import regard.torch  # noqa: E402

Q, K, V = cases.numbers(1, 2, 9, 4, 16), cases.numbers(2, 2, 11, 4, 16), cases.numbers(3, 2, 11, 4, 24)
SHAPES = [list(x.shape) for x in (Q, K, V)]


def attention(q, k, v):
    return regard.torch.attention(q, k, v)


def replaced(q, k, v):
    with regard.torch.replace_sdpa(strict=True):
        o = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return o.transpose(1, 2)


def shown(function):
    """Names and input shapes of this library's entries in the profiler."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        function()
    events = profile.key_averages(group_by_input_shape=True)
    return {event.key: event.input_shapes for event in events if event.key.startswith("regard")}


@pytest.mark.parametrize("call", [attention, replaced])
def test_the_profiler_shows_calls_with_their_shapes(call):
    assert shown(lambda: call(Q, K, V)) == {"regard::attention": SHAPES}
    leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
    found = shown(lambda: call(*leaves).sum().backward())
    assert found == {"regard::attention": SHAPES, "regard::attention_backward": [[2, 9, 4, 24], *SHAPES]}


def counted(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


@pytest.mark.parametrize("call", [attention, replaced])
def test_operations_are_counted_as_of_pytorch_s_own_kernels(call):
    leaves = [x.clone().requires_grad_() for x in (Q, K, V)]
    scores = 2 * 4 * 9 * 11
    assert counted(lambda: call(Q, K, V)) == 2 * scores * (16 + 24)
    assert counted(lambda: call(*leaves).sum().backward()) == 2 * scores * (4 * 16 + 3 * 24)


def test_operations_of_packed_sequences_are_those_of_each():
    offsets, x = torch.tensor([0, 3, 10], dtype=torch.int32), cases.numbers(1, 10, 4, 16)

    def call(x, offsets):
        return regard.torch.attention_varlen(x, x, x, offsets, offsets, 7, 7)

    assert counted(lambda: call(x, offsets)) == 2 * 4 * (3 * 3 + 7 * 7) * 32
    assert counted(lambda: call(x.to("meta"), offsets.to("meta"))) == 2 * 4 * 2 * 7 * 7 * 32
