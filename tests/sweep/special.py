"""What the rules for small configurations do not know: per configuration class, numbers that fit each other."""

from __future__ import annotations

from typing import Any

SPECIAL: dict[str, dict[str, Any]] = {
    "EsmConfig": {"vocab_size": 99, "pad_token_id": 1, "mask_token_id": 98},
}
