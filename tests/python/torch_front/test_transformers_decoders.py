"""Decoders whose modules, configurations and row slices once misled attention: results equal eager attention's."""

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import tiny_models as models  # noqa: E402

import regard.torch.transformers  # noqa: E402

regard.torch.transformers.register()


def agree(model, result):
    found = []
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        found.append(result())
    torch.testing.assert_close(found[1], found[0], rtol=5e-5, atol=5e-5)


def gradients_agree(model, result):
    def gradients():
        model.zero_grad()
        result().square().mean().backward()
        return {name: p.grad / p.grad.abs().max() for name, p in model.named_parameters() if p.grad is not None}

    agree(model, gradients)


def sparse_of(kind):
    experts = {
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    ranks = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16}
    index = {"index_topk": 4, "index_head_dim": 16, "index_n_heads": 2, "first_k_dense_replace": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "initializer_range": 0.3}
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**models.SIZES, **heads, **experts, **ranks, **index)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


@pytest.mark.parametrize("padding", ["none", "left", "gaps"])
def test_an_indexer_s_choice_of_keys(padding):
    model, mask = sparse_of("DeepseekV32"), models.padding(padding)
    agree(model, lambda: model(input_ids=models.ids(), attention_mask=mask).logits[mask.bool()])


def test_a_decoder_whose_module_says_that_it_is_not_causal():
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    sizes = {"vocab_size": 60, "d_model": 64, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 64}
    torch.manual_seed(0)
    config = transformers.PegasusXConfig(**sizes, **heads, init_std=0.3, num_global_tokens=4, block_size=4)
    model = transformers.PegasusXForConditionalGeneration(config).eval()
    agree(model, lambda: model(models.ids(), decoder_input_ids=models.ids(length=7)).logits)


@pytest.mark.parametrize("kind", ["StableLm", "Nemotron"])
def test_a_configuration_that_is_not_causal(kind):
    config = getattr(transformers, f"{kind}Config")(
        **{**models.SIZES, "hidden_size": 64}, **models.HEADS, initializer_range=0.3
    )
    config.is_causal = False
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    agree(model, lambda: model(models.ids()).logits)


def gemma_4():
    shared = {"num_kv_shared_layers": 2, "vocab_size_per_layer_input": 50, "hidden_size_per_layer_input": 8}
    layers = {"num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 4}
    torch.manual_seed(0)
    config = transformers.Gemma4TextConfig(
        **{**models.SIZES, **layers}, **models.HEADS, **shared, global_head_dim=16, initializer_range=0.3
    )
    return transformers.Gemma4ForCausalLM(config).eval()


def test_rows_that_are_cut_to_the_last_ones():
    model = gemma_4()
    last = lambda: model(input_ids=models.ids(), logits_to_keep=3).logits  # noqa: E731
    agree(model, last)
    gradients_agree(model, last)


def test_rows_that_are_cut_beside_the_empty_places_of_a_cache():
    model = gemma_4()
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0, "output_logits": True}
    agree(
        model,
        lambda: torch.stack(
            model.generate(models.ids(), **options, return_dict_in_generate=True, cache_implementation="static").logits
        ),
    )


@pytest.mark.parametrize("padded", [False, True])
def test_a_compiled_model(padded):
    model, mask = models.model_of("gemma 2"), models.padding("left" if padded else "none")
    inputs = {"input_ids": models.ids(), "attention_mask": mask if padded else None, "use_cache": False}
    model.set_attn_implementation("eager")
    theirs = model(**inputs).logits[mask.bool()]
    model.set_attn_implementation("regard")
    ours = torch.compile(model, fullgraph=True, backend="eager")(**inputs).logits[mask.bool()]
    torch.testing.assert_close(ours, theirs, rtol=5e-5, atol=5e-5)
