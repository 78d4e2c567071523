"""Arguments of attention other than its tensors: some are computed, some are known to be harmless, and all others
are refused, as an argument of a future model may change the result.

The parameters of `attention_forward` are computed.
"""

from __future__ import annotations

from typing import Any

from ...errors import RefusedError

# Arguments that no eager attention of transformers reads, and why ignoring them changes nothing.
HARMLESS: dict[str, str] = {
    "sliding_window": "masks hold it; where no mask comes, every query sees every key",
    "position_ids": "the mask and the rotation of Q and K hold them",
    "input_ids": "models make vectors of them before",
    "grid_thw": "positions and lengths of pictures are made of it before",
    "seq_idx": "layers with a state read it; the mask says what attention sees",
    "use_cache": "keys of a cache are in K and V",
    "logits_to_keep": "rows that are not kept are cut off Q, or of what comes later",
    "output_hidden_states": "layers return them",
    "output_router_logits": "layers return them",
    "return_dict": "models return it",
    "num_items_in_batch": "losses read it",
    "deterministic": "it is flash_attn's; here torch.use_deterministic_algorithms says it",
}


def score_options(dropout: float, scaling: float | None, softcap: float | None) -> dict[str, Any]:
    """Those that are given."""
    options = {"dropout": dropout or None, "scale": scaling, "softcap": softcap}
    return {name: option for name, option in options.items() if option is not None}


def refuse_unknown(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        if value is not None and name not in HARMLESS:
            raise RefusedError(
                f"attention was given {name}=, which is not computed here: leave it out, or use "
                "attn_implementation='eager'"
            )
