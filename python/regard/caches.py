"""The sizes of a problem with a KV cache, from the shapes of its arrays."""

from __future__ import annotations

from typing import Any

from .arrays import dtype_word, longest, shape_of
from .errors import invalid

_PAGES = ("page_table", "page_list")
_OF_CACHES = (*_PAGES, "k_new", "slots", "left_padding", "cache_index")


def has_cache(options: dict[str, Any], tensors: dict[str, Any]) -> bool:
    return bool(options.get("cache")) or bool(options.get("paged")) or any(name in tensors for name in _OF_CACHES)


def cache_words(dtype: str, inputs: dict[str, Any], options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """The words for q (absent in append), k and v as a cache [sequences, s, heads, dim], or as pages."""
    k, v = shape_of("k", inputs["k"]), shape_of("v", inputs["v"])
    paged = any(name in tensors for name in _PAGES) or bool(options.get("paged"))
    if len(k) != 4 or len(v) != 4:
        raise invalid(f"k has shape {list(k)} and v {list(v)}; as a cache they have 4 dimensions")
    kv = dtype if "k" not in inputs else dtype_word("k", inputs["k"])
    words, rows = [], k[1]
    if options.get("kv_layout") == "vectorized":
        x = 16 // {"fp32": 4, "bf16": 2, "fp16": 2}.get(kv, 1)
        hk, d, page, dv = k[1], k[2] * x, k[3] // x, v[3] // x
    else:
        hk, d, page, dv = k[2], k[3], k[1], v[3]
    if kv != dtype:
        words.append(f"kv={kv}")
    words.append(f"hk={hk} d={d} dv={dv}")
    batch = None
    if paged:
        words.append(f"paged={page} pages={k[0]}")
        if "page_table" in tensors:
            batch, blocks = shape_of("page_table", tensors["page_table"], 2, "[b, pages of a sequence]")
            rows = blocks * page
        elif "page_list" in tensors:
            words.append("table=sglang")
            batch = shape_of("page_offsets", tensors["page_offsets"], 1, "[b+1]")[0] - 1
            if "sk" not in options:
                raise invalid("a list of pages needs sk, the longest sequence or a bound above it")
    else:
        words.append(f"cache={k[0]}" if "cache" not in options else "")
    if "offsets_q" in tensors:
        words.append("varlen")
        batch = shape_of("offsets_q", tensors["offsets_q"], 1, "[b+1]")[0] - 1
        q = shape_of("q", inputs["q"], 3, "[tokens, heads, d]")
        words.append(f"hq={q[1]} tq={q[0]}")
        if "sq" not in options:
            options["sq"] = longest("offsets_q", tensors["offsets_q"])
    elif "q" in inputs:
        q = shape_of("q", inputs["q"], 4, "[b, s, heads, d]")
        batch = q[0]
        words.append(f"hq={q[2]} sq={q[1]}")
    else:
        words.append(f"hq={hk}")
    if "k_new" in tensors:
        new = shape_of("k_new", tensors["k_new"])
        if "slots" in tensors:
            wide = "64" in str(getattr(tensors["slots"], "dtype", "64"))
            words.append(f"tnew={new[0]} slots={'int64' if wide else 'int32'}")
        elif "offsets_new" in tensors:
            words.append(f"tnew={new[0]}")
            batch = shape_of("offsets_new", tensors["offsets_new"], 1, "[b+1]")[0] - 1
            if "snew" not in options:
                options["snew"] = min(new[0], options.get("sk", rows))
        else:
            words.append(f"snew={new[1]}")
            batch = new[0]
    if batch is not None:
        words.append(f"b={batch}")
    if "sk" not in options:
        words.append(f"sk={rows}")
    if "left_padding" in tensors:
        words.append("left_padding")
    if "rope_cos" in tensors:
        cos = shape_of("rope_cos", tensors["rope_cos"], 2, "[rows, rotary / 2]")
        words.append(f"rope_rows={cos[0]} rope_type={dtype_word('rope_cos', tensors['rope_cos'])}")
        if "rotary" not in options:
            words.append(f"rotary={2 * cos[1]}")
    if "positions" in tensors:
        token = len(shape_of("positions", tensors["positions"])) == 2 or "slots" in tensors
        words.append("positions=token" if token else "positions=sequence")
    if "descale_k" in tensors and "descale" not in options:
        factors = shape_of("descale_k", tensors["descale_k"])
        words.append("descale=tensor" if tuple(factors) == (1,) else "descale=head")
    return words
