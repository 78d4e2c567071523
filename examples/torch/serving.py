"""A small model served with continuous batching on a paged KV cache, on a CPU or a GPU.

Requests of different lengths come and go. Each step computes the next token of every request that is being answered
and, beside them, chunks of new prompts: one packed batch, one call of attention for each layer. The call also writes
the new keys and values into the cache and applies RoPE to them and to the queries.

Every other layer has a window. It keeps a ring of pages: a page that lies left of the window of every later query goes
back to the pool, so the table of a request begins with the first page that it still has, and positions for RoPE are
given apart. The model's tokens are those of the same model without a cache:

    python examples/torch/serving.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

import regard.torch

LAYERS, HEADS, KV_HEADS, DIM = 4, 4, 2, 64
WIDTH, WORDS, LONGEST = HEADS * DIM, 128, 512
PAGE, WINDOW, CHUNK = 16, 24, 32  # rows of a page, keys left of a query, tokens of a prompt in one step


def rope_tables(device: torch.device) -> tuple[Tensor, Tensor]:
    frequencies = 10000.0 ** (-torch.arange(DIM // 2) / (DIM // 2))
    angles = torch.arange(LONGEST)[:, None] * frequencies
    return angles.cos().to(device), angles.sin().to(device)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [tokens, heads, dim]; a row of the tables for each token."""
    first, second = x.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class Layer(nn.Module):
    def __init__(self, windowed: bool) -> None:
        super().__init__()
        self.windowed = windowed
        self.norm, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * DIM, bias=False)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        heads = self.qkv(self.norm(x)).view(len(x), -1, DIM)
        return heads.split([HEADS, KV_HEADS, KV_HEADS], 1)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        x = x + self.out(attended.reshape(len(x), WIDTH))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(windowed=i % 2 == 1) for i in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def without_cache(self, tokens: list[int], cos: Tensor, sin: Tensor) -> int:
        """The next token, computed from all of them by PyTorch alone."""
        x = self.embedding(torch.tensor(tokens, device=cos.device))
        rows = torch.arange(len(tokens), device=cos.device)
        distance = rows[:, None] - rows
        for layer in self.layers:
            q, k, v = layer.project(x)
            q, k = rotate(q, cos[rows], sin[rows]), rotate(k, cos[rows], sin[rows])
            seen = (distance >= 0) & (distance <= (WINDOW if layer.windowed else LONGEST))
            attended = nn.functional.scaled_dot_product_attention(
                *(t.transpose(0, 1)[None] for t in (q, k, v)), attn_mask=seen, enable_gqa=True
            )
            x = layer.finish(x, attended[0].transpose(0, 1))
        return int(self.head(x[-1]).argmax())


@dataclass
class Pages:
    """The cache of one layer: pages that requests take and give back."""

    k: Tensor
    v: Tensor
    free: list[int]


@dataclass
class Table:
    """A request's pages in one layer, from the first that it still has."""

    pages: list[int] = field(default_factory=list)
    given_back: int = 0

    def make_room(self, pool: Pages, tokens: int) -> None:
        while (self.given_back + len(self.pages)) * PAGE < tokens:
            self.pages.append(pool.free.pop())

    def give_back(self, pool: Pages, first_needed: int) -> None:
        while self.pages and (self.given_back + 1) * PAGE <= first_needed:
            pool.free.append(self.pages.pop(0))
            self.given_back += 1


@dataclass
class Request:
    prompt: list[int]
    answer_length: int
    tokens: list[int] = field(default_factory=list)  # the prompt and the answer so far
    cached: int = 0  # tokens whose keys and values are in the cache
    tables: list[Table] = field(default_factory=lambda: [Table() for _ in range(LAYERS)])

    def done(self) -> bool:
        return len(self.tokens) - len(self.prompt) >= self.answer_length


class Server:
    def __init__(self, model: Model, pages: int, device: torch.device) -> None:
        self.model, self.device = model, device
        self.cos, self.sin = rope_tables(device)
        nothing = torch.full((pages, PAGE, KV_HEADS, DIM), float("nan"), device=device)
        self.pools = [Pages(nothing.clone(), nothing.clone(), list(range(pages))) for _ in range(LAYERS)]
        self.most_pages_in_use = 0

    def serve(self, requests: list[Request], together: int) -> None:
        waiting, running = list(requests), []
        for request in waiting:
            request.tokens = list(request.prompt)
        while waiting or running:
            while waiting and len(running) < together:
                running.append(waiting.pop(0))
            self.step(running)
            for request in [request for request in running if request.done()]:
                running.remove(request)
                for pool, table in zip(self.pools, request.tables):
                    pool.free += table.pages

    @torch.no_grad()
    def step(self, batch: list[Request]) -> None:
        """The next token of each request, or the next chunk of its prompt."""
        counts = [min(len(request.tokens) - request.cached, CHUNK) for request in batch]
        offsets = self.integers([0, *torch.tensor(counts).cumsum(0).tolist()])
        positions = self.integers([request.cached for request in batch])
        new = [t for request, n in zip(batch, counts) for t in request.tokens[request.cached : request.cached + n]]
        x = self.model.embedding(torch.tensor(new, device=self.device))
        for number, (layer, pool) in enumerate(zip(self.model.layers, self.pools)):
            tables = [request.tables[number] for request in batch]
            for request, table, n in zip(batch, tables, counts):
                if layer.windowed:
                    table.give_back(pool, request.cached - WINDOW)
                table.make_room(pool, request.cached + n)
            q, k, v = layer.project(x)
            attended = regard.torch.attention(
                q.contiguous(),
                pool.k,
                pool.v,
                k_new=k.contiguous(),
                v_new=v.contiguous(),
                offsets_q=offsets,
                offsets_new=offsets,
                sq=max(counts),
                snew=max(counts),
                page_table=self.page_table(tables),
                lengths_k=self.integers([r.cached - t.given_back * PAGE for r, t in zip(batch, tables)]),
                positions=positions,
                rope="half",
                rotary=DIM,
                rope_cos=self.cos,
                rope_sin=self.sin,
                window=(WINDOW, 0) if layer.windowed else None,
                causal=not layer.windowed,
            )
            x = layer.finish(x, attended)
        self.most_pages_in_use = max(self.most_pages_in_use, *(len(pool.k) - len(pool.free) for pool in self.pools))
        last = self.model.head(x[offsets[1:].long() - 1]).argmax(-1).tolist()
        for request, n, token in zip(batch, counts, last):
            request.cached += n
            if request.cached == len(request.tokens):
                request.tokens.append(token)

    def page_table(self, tables: list[Table]) -> Tensor:
        longest = max(len(table.pages) for table in tables)
        return self.integers([table.pages + [-1] * (longest - len(table.pages)) for table in tables])

    def integers(self, numbers: list) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int32, device=self.device)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=8)
    parser.add_argument("--together", type=int, default=4, help="requests that are answered at a time")
    parser.add_argument("--pages", type=int, default=40, help="pages of each layer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)

    torch.manual_seed(0)
    device = torch.device(options.device)
    model = Model().to(device).eval()
    prompts = [torch.randint(WORDS, (int(length),)).tolist() for length in torch.randint(1, 100, (options.requests,))]
    requests = [Request(prompt, answer_length=10 + 5 * (i % 3)) for i, prompt in enumerate(prompts)]
    server = Server(model, options.pages, device)
    server.serve(requests, options.together)

    same = 0
    with torch.no_grad():
        for request in requests:
            tokens = list(request.prompt)
            while len(tokens) < len(request.tokens):
                tokens.append(model.without_cache(tokens, server.cos, server.sin))
            same += tokens == request.tokens
    print(f"{same} of {len(requests)} requests have the tokens of the model without a cache")
    print(f"at most {server.most_pages_in_use} of {options.pages} pages of a layer were in use")
    if same < len(requests):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
