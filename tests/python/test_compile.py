"""Under torch.compile a call is a graph break, and gives the same result as in eager mode."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
import regard  # noqa: E402

PROBLEM = "fwd fp32 b=1 h=2 s=9 d=16 lse"


class Projected(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)

    def forward(self, q, k, v):
        return 2 * regard.attention(self.linear(q).detach(), k, v, causal=True)


def around(q, k, v):
    o, lse = regard.attention(q * 2, k + 1, v, causal=True, lse=True)
    grads = regard.attention_backward(o, q * 2, k + 1, v, o, lse, causal=True, deterministic=True)
    return sum(grads) + o * lse.mean()


PLAN = regard.plan(PROBLEM)


def by_plan(q, k, v):
    o, lse = torch.empty_like(q), q.new_empty(1, 2, 9)
    PLAN.prepare()
    PLAN.run(q=q, k=k * 2, v=v, o=o, lse=lse)
    run = regard.plan(PROBLEM).run
    run(q=q, k=k * 2, v=v, o=o, lse=lse)
    return o + lse.transpose(1, 2)[..., None]


def by_a_check(q, k, v):
    o, lse = regard.attention(q, k, v, lse=True)
    return o * regard.check(PROBLEM, q=q, k=k, v=v, o=o, lse=lse)["ok"]


def by_masks(q, k, v):
    mask = k[..., 0].transpose(1, 2)[:, :, None] > -0.5
    return regard.attention(q, k, v, bits=regard.pack_bits(mask), lengths_k=[8])


CALLS = {
    "a function": lambda q, k, v: regard.attention(q, k, v),
    "around": around,
    "a module": Projected(),
    "a plan": by_plan,
    "a check": by_a_check,
    "masks": by_masks,
    "no gradient": torch.no_grad()(around),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_without(name):
    call = CALLS[name]
    torch._dynamo.reset()
    compiled = torch.compile(call, backend="eager")
    for seed in range(3):
        inputs = torch.randn(3, 1, 9, 2, 16, generator=torch.Generator().manual_seed(seed)).unbind(0)
        torch.testing.assert_close(compiled(*inputs), call(*inputs), rtol=1e-5, atol=1e-5)


def test_new_shapes_are_as_good():
    compiled = torch.compile(around, backend="eager")
    for keys in range(3, 20):
        q, k, v = torch.randn(3, 1, keys, 2, 16).unbind(0)
        torch.testing.assert_close(compiled(q, k, v), around(q, k, v), rtol=1e-5, atol=1e-5)


def test_errors_are_those_without():
    q = torch.randn(1, 9, 2, 16)
    with pytest.raises(regard.InvalidError, match="dropuot"):
        torch.compile(lambda x: regard.attention(x * 1, x, x, dropuot=0.1), backend="eager")(q)


def test_what_is_compiled_is_only_what_is_around():
    """No part of the package is traced: none of its frames is compiled, and the call itself is the only break."""
    torch._dynamo.reset()
    explained = torch._dynamo.explain(around)(*torch.randn(3, 1, 9, 2, 16).unbind(0))
    assert explained.graph_break_count <= 3 and explained.graph_count <= 4, explained


def test_the_compiler_is_not_imported():
    """By calls, or by the fronts: it takes longer to import than PyTorch."""
    code = "import torch, sys, regard; q = torch.zeros(1, 3, 1, 8); regard.attention(q, q, q)"
    code += "; import regard.aiter, regard.flash_attn, regard.flash_mla, regard.flashinfer, regard.torch"
    code += "; regard.torch.attention(q, q, q); sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
