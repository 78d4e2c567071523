"""A training run whose fourth step has a NaN in its input, for processes of their own: NAN_IN_STEP_4 DEVICE DTYPE."""

NAN_IN_STEP_4 = """
import sys, torch, regard.torch
device, dtype = sys.argv[1], getattr(torch, sys.argv[2])
torch.manual_seed(0)
layer = torch.nn.Linear(64, 64, bias=False, device=device, dtype=dtype)
for step in range(6):
    x, kv = torch.randn(2, 2, 19, 3, 64).to(device, dtype)
    if step == 3:
        x[1, 7, 2, 5] = float("nan")
    q = layer(x)
    o = regard.torch.attention(q, kv, kv, causal=True)
    loss = o.square().mean()
    layer.zero_grad(); loss.backward(); layer.weight.data -= 0.1 * layer.weight.grad
"""
