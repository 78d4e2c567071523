"""Models of transformers with attn_implementation="regard" against the same models with "eager"."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import tiny_models as models  # noqa: E402

import regard.torch.transformers  # noqa: E402

regard.torch.transformers.register()


def by_each(model, result):
    """result() with "eager", then with "regard"."""
    results = []
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        results.append(result())
    return results


def close(ours, theirs, tolerance=2e-5):
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def logits_of(model, rows, **inputs):
    return lambda: model(input_ids=models.ids(), **inputs).logits[rows]


MATRIX = [(name, kind) for name in models.FAMILIES for kind in ("none", "left", "right")] + [("gemma 2", "gaps")]


@pytest.mark.parametrize(("name", "kind"), MATRIX)
def test_logits_and_gradients(name, kind):
    model, mask = models.model_of(name), models.padding(kind)

    def results():
        model.zero_grad()
        logits = model(input_ids=models.ids(), attention_mask=mask).logits[mask.bool()]
        logits.square().mean().backward()
        return logits.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    (theirs, expected), (ours, grads) = by_each(model, results)
    close(ours, theirs)
    assert grads.keys() == expected.keys() and (name != "gpt-oss" or any("sinks" in name for name in grads))
    for parameter, grad in grads.items():
        bound = 1e-4 * expected[parameter].abs().max() + 1e-6  # BERT's keys have a bias, whose gradient is 0
        assert (grad - expected[parameter]).abs().max() <= bound, parameter


@pytest.mark.parametrize(("name", "cache"), [*((name, "dynamic") for name in models.DECODERS), ("gemma 2", "static")])
def test_generated_tokens(name, cache):
    model = models.model_of(name)
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    for kind in ("none", "left"):
        inputs = {"input_ids": models.ids(), "attention_mask": models.padding(kind)}
        theirs, ours = by_each(model, lambda: model.generate(**inputs, **options, cache_implementation=cache))  # noqa: B023
        assert torch.equal(ours, theirs) and ours.shape == (2, 17)


@pytest.mark.parametrize("name", models.DECODERS)
def test_several_rows_against_keys_that_were_there_before(name):
    model = models.model_of(name)

    def results():
        first = model(input_ids=models.ids()[:, :6], use_cache=True)
        return model(input_ids=models.ids()[:, 6:], cache=first.cache).logits

    theirs, ours = by_each(model, results)
    close(ours, theirs)


def test_packed_sequences_do_not_see_each_other():
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1]]).expand(2, -1)
    for name in models.DECODERS:
        model = models.model_of(name)
        theirs, ours = by_each(model, logits_of(model, ..., position_ids=positions))
        close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_of_one_s_own(dtype):
    seen = torch.rand(2, 1, 11, 11, generator=torch.Generator().manual_seed(2)) < 0.6
    seen |= torch.eye(11, dtype=torch.bool)
    numbers = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    model = models.model_of("llama")
    model.set_attn_implementation("eager")
    theirs = logits_of(model, ..., attention_mask=numbers)()
    model.set_attn_implementation("regard")
    close(logits_of(model, ..., attention_mask=seen if dtype == torch.bool else numbers)(), theirs)


def test_a_sequence_of_padding_alone():
    model = models.model_of("bert")
    model.set_attn_implementation("regard")
    logits = logits_of(model, ..., attention_mask=models.padding("one whole"))()
    assert torch.isfinite(logits).all()
    theirs, ours = by_each(model, logits_of(model, 1, attention_mask=models.padding("one whole")))
    close(ours, theirs)


def test_learned_biases_of_positions_and_attention_to_another_sequence():
    sizes = {"vocab_size": 50, "d_model": 32, "d_kv": 16, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)).eval()

    def results():
        model.zero_grad()
        mask = models.padding("right")
        logits = model(models.ids(), attention_mask=mask, decoder_input_ids=models.ids(length=7)).logits
        logits.square().mean().backward()
        return logits.detach(), model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad

    (theirs, expected), (ours, grad) = by_each(model, results)
    close(ours, theirs)
    assert expected.abs().max() > 0 and (grad - expected).abs().max() < 1e-4 * expected.abs().max()


def test_dropout_follows_pytorch_s_seed():
    model = models.model_of("llama", attention_dropout=0.4).train()
    model.set_attn_implementation("regard")

    def with_seed(seed):
        torch.manual_seed(seed)
        return logits_of(model, ...)()

    assert torch.equal(with_seed(1), with_seed(1)) and not torch.equal(with_seed(1), with_seed(2))


def test_bfloat16():
    model = models.model_of("gemma 2").bfloat16()
    theirs, ours = by_each(model, logits_of(model, ..., attention_mask=models.padding("none")))
    assert ours.dtype == torch.bfloat16
    close(ours, theirs, 0.1)


def test_weights_are_refused():
    model = models.model_of("llama")
    model.set_attn_implementation("regard")
    with pytest.raises(NotImplementedError, match="attn_implementation='eager'"):
        logits_of(model, ..., output_attentions=True)()
