"""Rows with very many keys, and keys with very many rows, against exact values: the errors are no larger than those of
PyTorch's flash attention and cuDNN."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import regard  # noqa: E402
from here import BACKWARD_FAMILIES, FAMILIES, KIND  # noqa: E402

D = 64
OTHERS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
HALF_UNIT = {torch.bfloat16: 2**-9, torch.float16: 2**-12, torch.float32: 2**-25}


def inputs(kind, keys, dtype):
    """q, k and v, [1, rows or keys, 1, D]: equal numbers, or random ones with V above 0."""
    if kind == "equal":
        values = ((0, 4), (0, keys), (0.1, keys))
        return [torch.full((1, rows, 1, D), value, device="cuda", dtype=dtype) for value, rows in values]
    generator = torch.Generator("cuda").manual_seed(keys)

    def draw(function, rows):
        return function(1, rows, 1, D, device="cuda", dtype=dtype, generator=generator)

    return draw(torch.randn, 4), draw(torch.randn, keys), draw(torch.rand, keys)


def exact(q, k, v):
    """O and LSE in fp64, computed for a few keys at a time."""
    rows = q[0, :, 0].double() / D**0.5
    lse, o = None, None
    for first in range(0, k.shape[1], 1 << 20):
        part = slice(first, first + (1 << 20))
        scores = rows @ k[0, part, 0].double().T
        of_part = torch.logsumexp(scores, 1)
        added = torch.exp(scores - of_part[:, None]) @ v[0, part, 0].double()
        if lse is None:
            lse, o = of_part, added
            continue
        both = torch.logaddexp(lse, of_part)
        o = o * torch.exp(lse - both)[:, None] + added * torch.exp(of_part - both)[:, None]
        lse = both
    return o, lse


def error(o, right):
    """The largest relative error: V is above 0, and so is O."""
    return float(((o.double().reshape(right.shape) - right) / right).abs().max())


def errors_of_others(q, k, v, right):
    found = {}
    for name, backend in OTHERS.items():
        try:
            with sdpa_kernel(backend):
                o = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
        except RuntimeError:
            continue  # does not support these dtypes, or so many keys
        found[name] = error(o.transpose(1, 2), right)
    return found


@pytest.mark.parametrize("keys", (1 << 17, 1 << 20, 1 << 25))
@pytest.mark.parametrize("dtype", ("bf16", "fp16", "fp32"))
@pytest.mark.parametrize("kind", ("equal", "random"))
@pytest.mark.parametrize("family", FAMILIES)
def test_long(family, kind, dtype, keys, record_property):
    of_torch = TYPES[dtype]
    problem = f"fwd {dtype} lse h=1 sq=4 sk={keys} d={D}"
    try:
        plan = regard.plan(problem, target=KIND, family=family)
    except regard.RefusedError as refusal:
        pytest.skip(str(refusal)[-300:])
    q, k, v = inputs(kind, keys, of_torch)
    right, right_lse = exact(q, k, v)
    o, lse = torch.empty_like(q), torch.empty(1, 1, 4, device="cuda")
    workspace = torch.empty(max(plan.workspace_bytes, 1), dtype=torch.uint8, device="cuda")
    plan.run(q=q, k=k, v=v, o=o, lse=lse, workspace=workspace)
    ours, of_lse = error(o[0, :, 0], right), float((lse[0, 0].double() - right_lse).abs().max())
    others = errors_of_others(q, k, v, right)
    for name, value in {"regard": ours, "regard_lse": of_lse, **others}.items():
        record_property(name, value)
    print({"regard": ours, "regard_lse": of_lse, **others})
    # Rounding of the output, of weights to the dtype of V, and of some thousand additions.
    allowed = 3 * HALF_UNIT[of_torch] + (2**-13 if dtype == "fp32" else 0)
    assert ours <= max(allowed, *(1.5 * other for other in others.values()), 0)
    assert of_lse <= 1e-4


def backward_inputs(kind, rows, keys, dtype):
    """q, k, v and dO, [1, rows or keys, 1, D]; as dO is above 0, so is dV."""
    if kind == "equal":
        values = ((0, rows), (0, keys), (0.1, keys), (0.1, rows))
        return [torch.full((1, count, 1, D), value, device="cuda", dtype=dtype) for value, count in values]
    generator = torch.Generator("cuda").manual_seed(rows + keys)

    def draw(function, count):
        return function(1, count, 1, D, device="cuda", dtype=dtype, generator=generator)

    return draw(torch.randn, rows), draw(torch.randn, keys), draw(torch.randn, keys), draw(torch.rand, rows) / 8


def exact_gradients(q, k, v, grad_o):
    """The gradients in fp64, computed for a few rows at a time."""
    k, v = k[0, :, 0].double(), v[0, :, 0].double()
    grad_q, grad_k, grad_v = [], torch.zeros_like(k), torch.zeros_like(v)
    chunk = max((1 << 24) // k.shape[0], 1)
    for first in range(0, q.shape[1], chunk):
        rows, grads = (x[0, first : first + chunk, 0].double() for x in (q, grad_o))
        p = torch.softmax(rows @ k.T / D**0.5, 1)
        of_p = grads @ v.T
        of_scores = p * (of_p - (p * of_p).sum(1, keepdim=True)) / D**0.5
        grad_q.append(of_scores @ k)
        grad_k += of_scores.T @ rows
        grad_v += p.T @ grads
    return torch.cat(grad_q), grad_k, grad_v


def errors(gradients, right):
    """The largest difference of each gradient, relative to its largest element."""
    most = [float(b.abs().max()) for b in right]
    return [
        float((a.double().reshape(b.shape) - b).abs().max()) / m if m else float(a.abs().max())
        for a, b, m in zip(gradients, right, most)
    ]


def gradients_of_others(q, k, v, grad_o):
    found = {}
    for name, backend in OTHERS.items():
        leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
        try:
            with sdpa_kernel(backend):
                o = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in leaves))
            found[name] = torch.autograd.grad(o.transpose(1, 2), leaves, grad_o)
        except RuntimeError:
            continue
    return found


# Equal fp32 numbers are left out: a sequential sum of a million of them drifts, because all roundings go one way.
@pytest.mark.parametrize(("rows", "keys"), [(1 << 17, 4), (1 << 20, 4), (4, 1 << 17), (4, 1 << 20)])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("equal", "bf16"), ("equal", "fp16"), ("random", "bf16"), ("random", "fp16"), ("random", "fp32")],
)
@pytest.mark.parametrize("family", BACKWARD_FAMILIES)
def test_long_gradients(family, kind, dtype, rows, keys, record_property):
    given = backward_inputs(kind, rows, keys, TYPES[dtype])
    right = exact_gradients(*given)
    q, k, v, grad_o = given
    o, lse = regard.attention(q, k, v, lse=True, target=KIND)
    try:
        gradients = regard.attention_backward(grad_o, q, k, v, o, lse, target=KIND, family=family)
    except regard.RefusedError as refusal:
        pytest.skip(str(refusal)[-300:])
    ours = errors(gradients, right)
    others = [errors(theirs, right) for theirs in gradients_of_others(*given).values()]
    record_property("errors", [ours, others])
    print(ours, others)
    # Rounding of the products' inputs, of O, and of the results; in dQ and dK much cancels out.
    unit = 2 * HALF_UNIT[TYPES[dtype]]
    for i, allowed in enumerate((8 * unit, 8 * unit, 2 * unit)):
        allowed += 2**-12 if dtype == "fp32" else 0
        assert ours[i] <= max(allowed, *(1.5 * their[i] for their in others), 0), ("dQ", "dK", "dV")[i]
