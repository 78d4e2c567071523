"""Prompts of different lengths in one call: packed queries, and keys in pages that a table or a list names."""

import torch
from gallery import integers, judge, tensor

import regard

pages_k, pages_v = tensor(12, 16, 2, 64), tensor(12, 16, 2, 64)
offsets, lengths = integers([0, 5, 35]), integers([20, 40])  # 5 and 30 queries; they are the last of 20 and 40 keys
q = tensor(35, 8, 64)

table = integers([[3, 8, -1], [11, 0, 5]])
call = {"offsets_q": offsets, "page_table": table, "lengths_k": lengths}
o = regard.attention(q, pages_k, pages_v, causal=True, sq=30, sk=48, **call)
problem = "fwd fp32 b=2 hq=8 hk=2 sq=30 sk=48 tq=35 d=64 varlen mask=causal lengths paged=16 pages=12"
judge(problem, q=q, k=pages_k, v=pages_v, o=o, **call)

# The same pages as one list for all sequences, as SGLang has them.
listed = {
    "page_list": integers([3, 8, 11, 0, 5]),
    "page_offsets": integers([0, 2, 5]),
    "last_page_lengths": integers([4, 8]),
}
again = regard.attention(q, pages_k, pages_v, causal=True, offsets_q=offsets, sq=30, sk=48, **listed)
assert torch.equal(o, again)
print("a table and a list give the same bits")
