"""Eight threads, random shapes: calls share plans and kernels, and each has a workspace of its own."""

import random
from concurrent.futures import ThreadPoolExecutor

from gallery import device, tensor, wait

import regard


def one(seed: int) -> str:
    draw = random.Random(seed)
    b, heads, group = draw.randint(1, 3), draw.randint(1, 3), draw.choice([1, 2, 4])
    sq, sk = draw.randint(1, 150), draw.randint(1, 150)
    mask = draw.choice(["none", "causal", "window:20,3", "causal_top_left"])
    q, k, v = tensor(b, sq, heads * group, 64), tensor(b, sk, heads, 64), tensor(b, sk, heads, 64)
    o = regard.attention(q, k, v, mask=mask)
    wait()
    problem = f"fwd fp32 b={b} hq={heads * group} hk={heads} sq={sq} sk={sk} d=64 mask={mask}"
    return "" if regard.check(problem, q=q, k=k, v=v, o=o)["ok"] else problem


with ThreadPoolExecutor(8) as pool:
    wrong = [problem for problem in pool.map(one, range(60)) if problem]
assert not wrong, f"wrong on {device}: {wrong}"
print("60 random problems on 8 threads: all as the oracle says")
