"""Which versions of transformers this works with."""

from __future__ import annotations

import transformers

OLDEST = (5, 10)


def refuse_old_transformers() -> None:
    found = transformers.__version__
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ImportError(
            f"regard.torch.transformers needs transformers {oldest} or newer, and this is {found}: upgrade it, or use "
            "attn_implementation='sdpa' under regard.torch.replace_sdpa()"
        )
