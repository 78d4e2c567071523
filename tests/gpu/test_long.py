"""Rows of very many keys against exact values: no further off than PyTorch's flash attention and cuDNN."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch has no CUDA", allow_module_level=True)
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import regard  # noqa: E402
from here import FAMILIES  # noqa: E402

D = 64
OTHERS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
HALF_UNIT = {torch.bfloat16: 2**-9, torch.float16: 2**-12, torch.float32: 2**-25}


def inputs(kind, keys, dtype):
    """[1, rows or keys, 1, D]: of equal numbers, or random ones with V above 0."""
    if kind == "equal":
        values = ((0, 4), (0, keys), (0.1, keys))
        return [torch.full((1, rows, 1, D), value, device="cuda", dtype=dtype) for value, rows in values]
    generator = torch.Generator("cuda").manual_seed(keys)

    def draw(function, rows):
        return function(1, rows, 1, D, device="cuda", dtype=dtype, generator=generator)

    return draw(torch.randn, 4), draw(torch.randn, keys), draw(torch.rand, keys)


def exact(q, k, v):
    """O and LSE in fp64, some keys at a time."""
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
    """The largest one, relative: V is above 0, and so is O."""
    return float(((o.double().reshape(right.shape) - right) / right).abs().max())


def errors_of_others(q, k, v, right):
    found = {}
    for name, backend in OTHERS.items():
        try:
            with sdpa_kernel(backend):
                o = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
        except RuntimeError:
            continue  # not for these types, or so many keys
        found[name] = error(o.transpose(1, 2), right)
    return found


@pytest.mark.parametrize("keys", (1 << 17, 1 << 20, 1 << 25))
@pytest.mark.parametrize("dtype", ("bf16", "fp16", "fp32"))
@pytest.mark.parametrize("kind", ("equal", "random"))
@pytest.mark.parametrize("family", FAMILIES)
def test_long(family, kind, dtype, keys, record_property):
    of_torch = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[dtype]
    problem = f"fwd {dtype} lse h=1 sq=4 sk={keys} d={D}"
    try:
        plan = regard.plan(problem, target="cuda", family=family)
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
    # What the output's type rounds, weights in the type of V, and some thousand additions.
    allowed = 3 * HALF_UNIT[of_torch] + (2**-13 if dtype == "fp32" else 0)
    assert ours <= max(allowed, *(1.5 * other for other in others.values()), 0)
    assert of_lse <= 1e-4
