"""Words of problem text for a KV cache, from the shapes and types of its arrays."""

from __future__ import annotations

from typing import Any

from .arrays import bytes_of, integer_word, known_word, longest, shape_of
from .errors import invalid
from .unknown import refuse_unknown

_FACTORS = "[1], [1|b, hk], [pages, hk], one for each row and head of k, or, with k_rope, for each 128 of its columns"


def value_words(of_k: int, of_v: int | None, options: dict[str, Any], tensors: dict[str, Any]) -> str:
    """Words for the columns of v. If v is None, it is the first columns of k: dv of them, or all of k with k_rope."""
    if of_v is not None:
        return f"dv={of_v}"
    if "k_rope" in tensors:
        return f"dv={of_k} latent"
    refuse_no_values(options)
    return "latent"


def refuse_no_values(options: dict[str, Any]) -> None:
    """Refuses v=None where nothing says which columns of k are v."""
    if options.get("dv") is None and options.get("k_rope") is None:
        raise invalid(
            "v is None, which means that v is the first columns of k: give dv=, their number, or k_rope=, the other "
            "columns"
        )


def page_words(k: Any, v: Any, layout: str, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """Words for the pages of k and v, and for the bound of their sequences."""
    of_k = shape_of("k", k, 4, "pages, [pages, page, hk, d]")
    of_v = None if v is None else shape_of("v", v, 4, "pages, [pages, page, hk, dv]")
    pages = of_k[0]
    if options.get("kv_layout") == "vectorized":
        if layout != "bshd":
            raise invalid(f"kv_layout='vectorized' has its own order of axes: leave layout={layout!r} out")
        together = 16 // bytes_of("k", k)
        page, heads, axis_d, of_axis = of_k[3] // together, of_k[1], 3, together
    else:
        pages, page = of_k[layout.index("b")], of_k[layout.index("s")]
        heads, axis_d, of_axis = of_k[layout.index("h")], layout.index("d"), 1
    dv = None if of_v is None else of_v[axis_d] // of_axis
    words = [f"hk={heads} {value_words(of_k[axis_d], dv, options, tensors)}"]
    words += [f"{name}={size}" for name, size in (("paged", page), ("pages", pages)) if name not in options]
    if "page_list" in tensors:
        for name in ("page_offsets", "last_page_lengths"):
            if name not in tensors:
                raise invalid(f"page_list needs page_offsets and last_page_lengths; {name} is missing")
        if "sk" not in options:
            options["sk"] = longest("page_offsets", tensors["page_offsets"]) * page
        return [*words, *([] if "table" in options else ["table=sglang"])]
    if "page_table" not in tensors:  # slots say where new tokens go
        return words if "sk" in options else [*words, f"sk={page}"]
    if "lengths_k" not in tensors:
        raise invalid("page_table needs lengths_k, the lengths of the sequences in the pages")
    (_, blocks) = shape_of("page_table", tensors["page_table"], 2, "[b, blocks], the page of each block of a sequence")
    return words if "sk" in options else [*words, f"sk={blocks * page}"]


def cache_words(pass_: str, dtype: str, options: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """Words that follow from arrays, besides the shapes of q, k and v."""
    words = [_type_of_keys(dtype, options, tensors), _factors(options, tensors)]
    if "k_new" in tensors:
        words.append(_new_tokens(options, tensors))
    if "slots" in tensors:
        words.append(f"slots={integer_word('slots', tensors['slots']) or 'int64'}")
    if "positions" in tensors:
        words.append(f"positions={_kind_of_positions(pass_, tensors)}")
    if "rope_cos" in tensors:
        words += _rope(options, tensors["rope_cos"])
    elif isinstance(options.get("rope"), str):
        raise invalid("rope needs rope_cos and rope_sin, [rows, rotated dimensions / 2], a row for each position")
    return [word for word in words if word]


def _type_of_keys(dtype: str, options: dict[str, Any], tensors: dict[str, Any]) -> str:
    """kv= for 8-bit keys with wider queries. Any other pair of types is refused when the plan runs."""
    if "kv" in options or dtype not in ("fp32", "bf16", "fp16"):
        return ""
    word = known_word("k", tensors["k"]) or integer_word("k", tensors["k"])
    return f"kv={word}" if word and (word == "int8" or word.startswith("fp8")) else ""


def _new_tokens(options: dict[str, Any], tensors: dict[str, Any]) -> str:
    shape = shape_of("k_new", tensors["k_new"])
    if len(shape) == 4 and "slots" in tensors:
        raise invalid(f"k_new has shape {list(shape)}; with slots, one for each token, it must be [tokens, hk, d]")
    if len(shape) == 4:
        rows = {"bhsd": 2, "sbhd": 0}.get(options.get("layout", "bshd"), 1)
        return f"snew={shape[rows]}"
    if len(shape) != 3:
        raise invalid(f"k_new has shape {list(shape)}; it must be [b, snew, hk, d] or, packed, [tokens, hk, d]")
    if "slots" not in tensors and "snew" not in options:
        if "offsets_new" not in tensors:
            raise invalid(
                "packed new tokens need offsets_new, where those of each sequence begin; or give k_new as [b, snew, "
                "hk, d]"
            )
        options["snew"] = longest("offsets_new", tensors["offsets_new"])
    return f"tnew={shape[0]}"


def _kind_of_positions(pass_: str, tensors: dict[str, Any]) -> str:
    """Forward takes the first position of each sequence, append also one of each token, [b, snew] or [tokens]."""
    packed = len(shape_of("k_new", tensors.get("k_new", ()))) == 3
    of_tokens = packed or len(shape_of("positions", tensors["positions"])) == 2
    return "token" if pass_ == "append" and of_tokens else "sequence"


def _factors(options: dict[str, Any], tensors: dict[str, Any]) -> str:
    """descale=, from the shape of the factors."""
    name = next((name for name in ("descale_k", "descale_v", "descale_q") if name in tensors), None)
    if name is None or "descale" in options:
        return ""
    shape, keys = shape_of(name, tensors[name]), shape_of("k", tensors["k"])
    if "k_rope" in tensors and len(shape) == len(keys):
        return "descale=columns"
    if not 1 <= len(shape) <= 3:
        raise invalid(f"{name} has shape {list(shape)}; it must be {_FACTORS}")
    if len(shape) != 2:
        return "descale=tensor" if len(shape) == 1 else "descale=token"
    paged = "page_table" in tensors or "page_list" in tensors
    fits = {
        "head": shape[0] in (1, _batch(options, tensors)),
        "page": paged and shape[0] == keys[0],
        "token": len(keys) == 3 and shape[0] == keys[0],
    }
    meanings = [meaning for meaning, fit in fits.items() if fit]
    if len(meanings) > 1:
        raise invalid(
            f"{name} has shape {list(shape)}, which can be factors of each {meanings[0]} or of each {meanings[1]}: "
            f"give descale={meanings[0]!r} or descale={meanings[1]!r}"
        )
    return f"descale={meanings[0] if meanings else 'head'}"


def _batch(options: dict[str, Any], tensors: dict[str, Any]) -> int:
    if "offsets_q" in tensors:
        return shape_of("offsets_q", tensors["offsets_q"])[0] - 1
    if "q" not in tensors:
        return sequences_of_new(options, tensors)
    layout: str = options.get("layout", "bshd")
    return shape_of("q", tensors["q"])[layout.index("b")]


def is_without_tokens(inputs: dict[str, Any], options: dict[str, Any]) -> bool:
    """Whether packed new tokens are none, so that append has nothing to do."""
    shape = shape_of("k_new", inputs["k_new"])
    if len(shape) != 3 or shape[0] != 0:
        return False
    refuse_unknown(options)
    return True


def sequences_of_new(options: dict[str, Any], tensors: dict[str, Any]) -> int:
    """The number of sequences that the new tokens belong to; packed tokens alone do not determine it."""
    if "offsets_new" in tensors:
        return shape_of("offsets_new", tensors["offsets_new"], 1, "[b+1]")[0] - 1
    shape = shape_of("k_new", tensors["k_new"])
    return shape[options.get("layout", "bshd").index("b")] if len(shape) == 4 else 1


def _rope(options: dict[str, Any], cos: Any) -> list[str]:
    rows, half = shape_of("rope_cos", cos, 2, "[rows, rotary / 2], a row for each position")
    words = {"rope_rows": rows, "rotary": 2 * half, "rope_type": known_word("rope_cos", cos)}
    return [f"{name}={value}" for name, value in words.items() if value is not None and name not in options]
