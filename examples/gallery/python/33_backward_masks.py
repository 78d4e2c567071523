"""Gradients under every kind of mask; a row that sees no key has gradients of zero, not NaN."""

from gallery import integers, judge, tensor

import regard

s = 72
q, k, v, grad_o = (tensor(1, s, 4, 64) for _ in range(4))


def backward(words: str, **options: object) -> None:
    o, lse = regard.attention(q, k, v, lse=True, **options)
    gradients = regard.attention_backward(grad_o, q, k, v, o, lse, **options)
    outputs = dict(zip(("grad_q", "grad_k", "grad_v"), gradients))  # noqa: B905
    inputs = {name: x for name, x in options.items() if name == "ranges"}
    judge(f"bwd fp32 h=4 s={s} d=64 {words}", grad_o=grad_o, q=q, k=k, v=v, o=o, lse=lse, **inputs, **outputs)
    if inputs:
        assert not outputs["grad_q"][0, :8].any()
        print("rows without keys: zeros")


for mask in ("causal", "causal_top_left", "window:12,0", "window:12,6", "window:8,0,sink=4"):
    backward(f"mask={mask}", mask=mask)
backward("ranges", ranges=integers([[[0, 0 if i < 8 else 40] for i in range(s)]]))
