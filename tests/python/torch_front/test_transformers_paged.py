"""transformers' continuous batching with Regard in place of its eager attention."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
from tiny_models import model_of  # noqa: E402
from transformers import AttentionInterface, ContinuousBatchingConfig, GenerationConfig  # noqa: E402

import regard.torch.transformers  # noqa: E402
from regard.torch.transformers import paged  # noqa: E402

pytestmark = pytest.mark.no_compiler

PROMPTS = [[5, 6, 7, 9, 4, 4, 8], [8], [13, 4, 21]]


@pytest.fixture
def calls(monkeypatch):
    """Sizes of the calls of continuous batching."""
    made, of_transformers = [], AttentionInterface()["paged|eager"]
    attend = paged.attention_varlen

    def counted(q, *others, **options):
        made.append((q.shape[0], options))
        return attend(q, *others, **options)

    monkeypatch.setattr(paged, "attention_varlen", counted)
    regard.torch.transformers.register_paged()
    yield made
    AttentionInterface.register("paged|eager", of_transformers)


@pytest.mark.parametrize("family", ["gemma 2"])  # with windows and a soft cap
def test_tokens_are_those_of_one_request_after_the_other(family, calls):
    model = model_of(family, attn_implementation="eager")
    words = GenerationConfig(max_new_tokens=4, do_sample=False, eos_token_id=-1, pad_token_id=0)
    expected = [
        model.generate(torch.tensor([prompt]), generation_config=words)[0, len(prompt) :].tolist() for prompt in PROMPTS
    ]
    small = ContinuousBatchingConfig(page_size=16, num_blocks=16, max_batch_tokens=32)
    found = model.generate_batch(
        inputs=PROMPTS, generation_config=words, continuous_batching_config=small, progress_bar=False, warmup=False
    )
    assert sorted(request.generated_tokens for request in found.values()) == sorted(expected)
    assert {sum(map(len, PROMPTS)), len(PROMPTS)} <= {tokens for tokens, _ in calls}
    assert {options.get("window") for _, options in calls} == {(3, 0), None}
    assert all(options["softcap"] == 0.5 for _, options in calls)


def test_an_unknown_argument_is_refused():
    x, starts = torch.zeros(1, 2, 3, 16), torch.tensor([0, 3], dtype=torch.int32)
    with pytest.raises(NotImplementedError, match="attention was given indices="):
        paged.paged_attention_forward(
            *(None, x, x, x, None),
            indices=starts,
            cu_seq_lens_q=starts,
            cu_seq_lens_k=starts,
            max_length_q=3,
            max_length_k=3,
        )
