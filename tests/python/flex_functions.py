"""Functions that are written for FlexAttention, and the same as text of the language, where "{0}" is the first tensor
that the function reads."""

import math

import torch

B, H, S, BLOCK = 2, 3, 48, 4
W, R = 8, 2  # a row of a picture, and how far a query sees in it

_made = torch.Generator().manual_seed(7)


def floats(*shape):
    return torch.rand(*shape, generator=_made)


def whole(least, most, *shape):
    return torch.randint(least, most, shape, generator=_made, dtype=torch.int32)


doc = whole(0, 3, B, S).sort(-1).values
start = torch.arange(S, dtype=torch.int32) // 5 * 5
prefix, past, length = whole(1, 9, B), whole(0, 9, B), whole(9, S, B)
tree = floats(S, S) < 0.3
ancestors = whole(0, 2**31 - 1, S)
picture = whole(-1, 3, B, S)
kind = whole(0, 3, B, S).to(torch.uint8)
may_see = torch.ones(3, 3, dtype=torch.bool).tril()
blocks = floats(B, H, S // BLOCK, S // BLOCK) < 0.5
chosen = whole(0, S // BLOCK, B, H, S // BLOCK, 3)
slope, sink, sigma, weight = floats(H), floats(H), floats(H), floats(H)
table, buckets, pair = floats(H, 13), floats(16, H), floats(B, H, S, S)
gate, temperature = floats(B, H, S), torch.tensor(0.7)
place = floats(S, 3)


def causal(b, h, q, kv):
    return q >= kv


def near(middle, edge, k):
    """Whether k is in a window around the middle that does not leave 0 .. edge - 1."""
    centre = middle.clamp(R, edge - 1 - R)
    return (centre - k).abs() <= R


def neighbourhood(b, h, q, kv):
    return near(q // W, S // W, kv // W) & near(q % W, W, kv % W)


def volume(b, h, q, kv):
    planes = near(q // 16, S // 16 + 2, kv // 16)
    return planes & near(q // 4 % 4, 5, kv // 4 % 4) & near(q % 4, 5, kv % 4)


def top_blocks(b, h, q, kv):
    seen = chosen[b, h, q // BLOCK, 0] == kv // BLOCK
    for i in (1, 2):
        seen = seen | (chosen[b, h, q // BLOCK, i] == kv // BLOCK)
    return seen


def t5(score, b, h, q, kv):
    n = torch.clamp(q - kv, min=0)
    far = 8 + (torch.log(n.float() / 8) / math.log(16) * 8).to(torch.int32)
    return score + buckets[torch.where(n < 8, n, far.clamp(8, 15)), h]


def distance(score, b, h, q, kv):
    squares = [(place[q, i] - place[kv, i]) ** 2 for i in range(3)]
    return score - weight[h] * torch.sqrt(squares[0] + squares[1] + squares[2])


NEAR = "abs(min(max({0},2),{1})-{2})<=2"

KEEPS = {
    "causal": (causal, "kv<=q"),
    "window": (lambda b, h, q, kv: (q >= kv) & (q - kv <= 5), "kv<=q&&q-kv<=5"),
    "documents": (lambda b, h, q, kv: doc[b, q] == doc[b, kv], "{0}[b,q]=={0}[b,kv]"),
    "causal documents": (
        lambda b, h, q, kv: (doc[b, q] == doc[b, kv]) & causal(b, h, q, kv),
        "{0}[b,q]=={0}[b,kv]&&kv<=q",
    ),
    "packed": (lambda b, h, q, kv: (q >= kv) & (kv >= start[q]), "kv<=q&&{0}[q]<=kv"),
    "prefix": (lambda b, h, q, kv: (q >= kv) | (kv < prefix[b]), "kv<=q||kv<{0}[b]"),
    "sinks and window": (
        lambda b, h, q, kv: torch.logical_and((kv < 4) | (q - kv < 9), q >= kv),
        "(kv<4||q-kv<9)&&kv<=q",
    ),
    "causal from the end": (lambda b, h, q, kv: kv <= q + past[b], "kv<=q+{0}[b]"),
    "padding": (lambda b, h, q, kv: kv < length[b], "kv<{0}[b]"),
    "block diagonal": (lambda b, h, q, kv: q // BLOCK == kv // BLOCK, "q//4==kv//4"),
    "dilated": (lambda b, h, q, kv: ((q - kv) % 3 == 0) & (abs(q - kv) < 13), "(q-kv)%3==0&&abs(q-kv)<13"),
    "neighbourhood": (
        neighbourhood,
        f"{NEAR.format('q//8', 3, 'kv//8')}&&{NEAR.format('q%8', 5, 'kv%8')}",
    ),
    "volume": (
        volume,
        f"{NEAR.format('q//16', 2, 'kv//16')}&&{NEAR.format('q//4%4', 2, 'kv//4%4')}&&{NEAR.format('q%4', 2, 'kv%4')}",
    ),
    "tree": (lambda b, h, q, kv: tree[q, kv], "{0}[q,kv]"),
    "tree bits": (lambda b, h, q, kv: (ancestors[q] >> (kv & 31)) & 1 == 1, "({0}[q]>>(kv&31)&1)==1"),
    "transfusion": (
        lambda b, h, q, kv: (q >= kv) | ((picture[b, q] >= 0) & (picture[b, q] == picture[b, kv])),
        "kv<=q||{0}[b,q]>=0&&{0}[b,q]=={0}[b,kv]",
    ),
    "modality": (lambda b, h, q, kv: may_see[kind[b, q].int(), kind[b, kv].int()], "{1}[{0}[b,q],{0}[b,kv]]"),
    "hash": (lambda b, h, q, kv: (q * 40503 + kv * 30103 >> 3) % 7 < 3, "(q*40503+kv*30103>>3)%7<3"),
    "blocks": (lambda b, h, q, kv: blocks[b, h, q // BLOCK, kv // BLOCK] & (q >= kv), "{0}[b,h,q//4,kv//4]&&kv<=q"),
    "top blocks": (
        top_blocks,
        "{0}[b,h,q//4,0]==kv//4||{0}[b,h,q//4,1]==kv//4||{0}[b,h,q//4,2]==kv//4",
    ),
}

SCORES = {
    "ALiBi": (lambda s, b, h, q, kv: s - slope[h] * (q - kv).abs(), "s-{0}[h]*abs(q-kv)"),
    "relative table": (
        lambda s, b, h, q, kv: s + table[h, (q - kv).clamp(-6, 6) + 6],
        "s+{0}[h,min(max(q-kv,-6),6)+6]",
    ),
    "soft cap": (lambda s, b, h, q, kv: 20.0 * torch.tanh(s / 20.0), "20.0*tanh(s/20.0)"),
    "sink bias": (lambda s, b, h, q, kv: s + torch.where(kv < 4, sink[h], 0.0), "s+where(kv<4,{0}[h],0.0)"),
    "T5": (
        t5,
        "x=max(q-kv,0);s+{0}[where(x<8,x,min(max(8+int(log(float(x)/8)/2.7725887*8),8),15)),h]",
    ),
    "Gaussian": (lambda s, b, h, q, kv: s - sigma[h] * (q - kv) ** 2, "x=q-kv;s-{0}[h]*(x*x)"),
    "distance": (
        distance,
        "x={0}[q,0]-{0}[kv,0];y={0}[q,1]-{0}[kv,1];z={0}[q,2]-{0}[kv,2];s-{1}[h]*sqrt(x*x+y*y+z*z)",
    ),
    "pair bias": (lambda s, b, h, q, kv: s + pair[b, h, q, kv], "s+{0}[b,h,q,kv]"),
    "temperature": (lambda s, b, h, q, kv: s * temperature, "s*{0}"),
    "key gate": (lambda s, b, h, q, kv: s + torch.log(torch.sigmoid(gate[b, h, kv])), "s+log(sigmoid({0}[b,h,kv]))"),
    "mask within": (lambda s, b, h, q, kv: torch.where(q >= kv, s, -float("inf")), "where(kv<=q,s,-inf)"),
}
