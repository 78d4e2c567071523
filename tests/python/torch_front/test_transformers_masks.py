"""What masks of models become: words and a few numbers where they will do."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import tiny_models as models  # noqa: E402
from transformers import masking_utils as theirs  # noqa: E402

import regard.torch.transformers  # noqa: E402

regard.torch.transformers.register()


def mask_for(make, kind="none", *, window=None, **config):
    """Of 11 tokens by one of the functions that models call."""
    config = models.FAMILIES["llama"][1].__class__(**config)
    config.sliding_window = window
    config._attn_implementation = "regard"
    return make(config, torch.empty(2, 11, 32), models.padding(kind), None)


def said(mask):
    return {name: x.tolist() if isinstance(x, torch.Tensor) else x for name, x in mask.options.items()}


causal, both_sides = theirs.create_causal_mask, theirs.create_bidirectional_mask
window, window_of_both_sides = theirs.create_sliding_window_causal_mask, theirs.create_bidirectional_sliding_window_mask


def test_nothing_where_there_is_no_padding_and_no_window():
    assert mask_for(causal) is None and mask_for(both_sides) is None
    assert mask_for(window, window=12) is None


def test_windows_are_words():
    assert said(mask_for(window, window=4)) == {"window": (3, 0), "causal": True}
    assert said(mask_for(window_of_both_sides, window=4)) == {"window": (4, 4)}


def test_right_padding_is_lengths():
    lengths = [8, 11]
    assert said(mask_for(both_sides, "right")) == {"lengths_k": lengths}
    assert said(mask_for(causal, "right")) == {"lengths_q": lengths, "lengths_k": lengths, "causal": True}
    assert said(mask_for(both_sides, "one whole")) == {"lengths_k": [0, 11]}


def test_left_padding_is_row_ranges():
    rows = [[[3, 11]] * 11, [[0, 11]] * 11]
    assert said(mask_for(causal, "left")) == {"ranges": rows, "causal": True}
    assert said(mask_for(window, "left", window=4)) == {"window": (3, 0), "ranges": rows, "causal": True}


def test_other_patterns_are_booleans():
    assert mask_for(causal, "gaps").dtype == torch.bool
    config = {"attention_chunk_size": 4}
    chunks = mask_for(theirs.create_chunked_causal_mask, **config)
    assert chunks.dtype == torch.bool and chunks[0, 0, 5].tolist() == [4 <= key <= 5 for key in range(11)]


def test_a_mask_moves_to_another_device():
    moved = mask_for(window, "left", window=4).to("meta")
    assert moved.options["ranges"].is_meta and moved.options["window"] == (3, 0)


def test_a_model_that_looks_into_its_mask_finds_booleans():
    mask = mask_for(window, "left", window=4)
    pattern = theirs.sliding_window_causal_mask_function(4)
    wanted = theirs.sdpa_mask(2, 11, 11, mask_function=pattern, allow_is_causal_skip=False)
    wanted = wanted & models.padding("left")[:, None, None].bool()
    assert mask.shape == wanted.shape and mask.dtype == torch.bool
    assert torch.equal(mask[:, :, 2:], wanted[:, :, 2:]) and torch.equal(
        torch.cat([mask, mask]), wanted.repeat(2, 1, 1, 1)
    )
    assert torch.equal(mask.to(torch.float32), wanted.float())
    assert torch.equal(copy.deepcopy(mask)[...], wanted)


def test_a_mask_that_is_there_is_not_made_again():
    config = models.FAMILIES["llama"][1].__class__()
    config._attn_implementation = "regard"
    mask = mask_for(causal, "left")
    assert causal(config, torch.empty(2, 11, 32), mask, None) is mask
