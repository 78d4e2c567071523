"""The options that model masks become: words and a few numbers where those suffice."""

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import tiny_models as models  # noqa: E402
from transformers import masking_utils as theirs  # noqa: E402

import regard.torch.transformers  # noqa: E402
from regard.torch.transformers.making import mask_of  # noqa: E402

regard.torch.transformers.register()


def mask_for(make, kind="none", *, window=None, **config):
    """A mask for 11 tokens by one of the functions that models call."""
    is_causal = config.pop("is_causal", None)
    config = models.FAMILIES["llama"][1].__class__(**config)
    config.sliding_window = window
    if is_causal is not None:
        config.is_causal = is_causal
    config._attn_implementation = "regard"
    return make(config, torch.empty(2, 11, 32), models.padding(kind), None)


def said(mask):
    return {name: x.tolist() if isinstance(x, torch.Tensor) else x for name, x in mask.options.items()}


causal, both_sides = theirs.create_causal_mask, theirs.create_bidirectional_mask
window, window_of_both_sides = theirs.create_sliding_window_causal_mask, theirs.create_bidirectional_sliding_window_mask


def test_words_where_there_is_no_padding_and_no_window():
    assert said(mask_for(causal)) == {"causal": True} == said(mask_for(window, window=12))


def test_no_mask_where_every_query_sees_every_key_as_with_eager_attention():
    assert mask_for(both_sides) is None
    assert said(mask_for(causal, is_causal=True)) == {"causal": True} and mask_for(causal, is_causal=False) is None


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
    gaps = mask_for(causal, "gaps")
    assert gaps.options is None and gaps.booleans()[0, 0, 6].tolist() == [key in (0, 1, 3, 4, 6) for key in range(11)]
    chunks = mask_for(theirs.create_chunked_causal_mask, attention_chunk_size=4)
    assert chunks.options is None and chunks.booleans()[0, 0, 5].tolist() == [4 <= key <= 5 for key in range(11)]


def test_a_pattern_of_a_model_s_own_is_not_taken_for_another():
    own = theirs.and_masks(lambda b, h, q, k: k >= q, theirs.causal_mask_function)
    mask = mask_of(1, 11, 11, mask_function=own, local_size=4)
    assert mask.options is None and torch.equal(mask.booleans()[0, 0], torch.eye(11, dtype=torch.bool))


@pytest.mark.parametrize(("offset", "expected"), [(0, {"causal": "top_left"}), (5, None)])
def test_a_cache_of_fixed_size(offset, expected):
    mask = mask_of(1, 6, 16, q_offset=torch.tensor(offset))
    assert mask.options == expected
    assert mask.booleans()[0, 0, 5].tolist() == [key <= offset + 5 for key in range(16)]


def test_a_mask_moves_to_another_device():
    moved = mask_for(window, "left", window=4).to("meta")
    assert moved.options["ranges"].is_meta and moved.options["window"] == (3, 0)


def test_a_model_that_looks_into_its_mask_finds_the_numbers_of_eager_attention():
    mask = mask_for(window, "left", window=4)
    pattern = theirs.sliding_window_causal_mask_function(4)
    expected = theirs.eager_mask(2, 11, 11, mask_function=pattern, attention_mask=models.padding("left").bool())
    assert mask.shape == expected.shape and mask.dtype == torch.float32
    assert torch.equal(torch.cat([mask, mask]), expected.repeat(2, 1, 1, 1)) and torch.equal(mask[:, 0], expected[:, 0])
    assert torch.equal(mask.to(torch.float64), expected.double()) and torch.equal(copy.deepcopy(mask) + 1, expected + 1)
    assert torch.equal(mask == 0, expected == 0) and torch.equal(torch.ones(()) + mask, expected + 1)


def test_what_is_cut_out_of_a_mask_is_a_mask():
    mask = mask_for(window, "left", window=4)
    assert mask[:, :, :, :11] is mask
    assert torch.equal(mask[:, :, -3:, :].booleans(), mask.booleans()[:, :, -3:, :])


def test_a_mask_that_is_there_is_not_made_again():
    config = models.FAMILIES["llama"][1].__class__()
    config._attn_implementation = "regard"
    mask = mask_for(causal, "left")
    assert causal(config, torch.empty(2, 11, 32), mask, None) is mask
