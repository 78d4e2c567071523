"""vLLM's backend: what layers compute, from metadata recorded from vLLM 0.32 on a CPU."""

import math

import pytest

torch = pytest.importorskip("torch")

from vllm_cases import HK, HQ, PAGE, D, Layer, batches, close, gpu_cache, steps_in_one_place  # noqa: E402
from vllm_host import Host  # noqa: E402

from cached import ints, numbers  # noqa: E402


@pytest.fixture
def host():
    found = Host()
    found.install()
    yield found
    found.remove()


OPTIONS = {
    "plain": {},
    "window": {"sliding_window": 6},
    "soft cap and slopes": {"logits_soft_cap": 3.0, "alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
    "sinks": {"sinks": torch.tensor([1.0, -0.5, 2.0, 0.0], dtype=torch.bfloat16)},
    "window and sinks": {"sliding_window": 33, "sinks": torch.tensor([1.0, -0.5, 2.0, 0.0])},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_decoded_tokens_and_chunks_of_prompts_in_one_call(host, options):
    layer = Layer(**options)
    for i, batch in enumerate(batches()):
        close(*layer.step(batch, seed=10 * i))


def test_a_type_of_16_bits(host):
    layer = Layer(torch.bfloat16)
    for i, batch in enumerate(list(batches())[:2]):
        close(*layer.step(batch, seed=10 * i), tolerance=0.02)


@pytest.mark.parametrize("name", ["fp8", "fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("scales", [((0.5,), (0.25,)), ((0.5, 0.125), (0.25, 2.0))], ids=["tensor", "heads"])
def test_caches_of_8_bits(host, name, scales):
    layer = Layer(torch.bfloat16, *scales, kv_cache_dtype=name)
    kind = torch.float8_e5m2 if name == "fp8_e5m2" else torch.float8_e4m3fn
    for i, batch in enumerate(list(batches())[:2]):
        found, _ = layer.step(batch, seed=10 * i)
        pages = layer.cache.view(kind).view(-1, HK, 2, PAGE, D).unbind(2)
        for rows, factors, in_cache in zip(layer.rows, scales, pages):
            by, slots = torch.tensor(factors)[:, None], batch.slot_mapping
            rounded = (rows / by).to(kind).float()
            rows.copy_(rounded * by)
            assert torch.equal(in_cache.float().transpose(1, 2).flatten(0, 1)[slots], rounded[slots])
        close(found, layer.expected(numbers(10 * i, batch.num_actual_tokens, HQ, D).bfloat16(), batch), 0.02)


def test_tokens_without_a_slot_and_requests_without_queries(host):
    layer, batch = Layer(), next(batches())
    k, v = numbers(1, 40, HK, D), numbers(2, 40, HK, D)  # more rows than slots
    batch.slot_mapping[[0, 5]] = -1
    layer.write(k, v, batch.slot_mapping)
    k_pages, v_pages = layer.cache.view(-1, HK, 2, PAGE, D).unbind(2)
    for pages, rows in ((k_pages, layer.rows[0]), (v_pages, layer.rows[1])):
        found = pages.transpose(1, 2).reshape(-1, HK, D)
        written = torch.zeros(len(found), dtype=torch.bool)
        written[batch.slot_mapping[batch.slot_mapping >= 0]] = True
        assert torch.equal(found[written], rows[written])
        assert found[~written].isnan().all()

    layer.write(k[:2], v[:2], torch.tensor([32, 98]))
    batch.query_start_loc, batch.seq_lens = ints(0, 1, 3, 20, 20), ints(1, 2, 17, 0)  # a graph of more tokens
    batch.max_query_len = 32
    q = numbers(3, 32, HQ, D)
    found = layer.attend(q, k, v, batch)
    close(found[:20], layer.expected(q, batch))
    assert found[20:].isnan().all()


def test_batches_in_one_place_with_one_bound(host):
    for found, expected in steps_in_one_place(Layer(), captured=lambda step: step):
        close(found, expected)


def layer_for_gpus(host, tokens_first, **options):
    """With the caches of a GPU, which is_cpu says this is not, in memory of the CPU."""
    host.is_cpu = False
    layer = Layer(**options)
    layer.cache = gpu_cache(tokens_first, layer.dtype, "cpu")
    return layer


@pytest.mark.parametrize("tokens_first", [False, True], ids=["heads first", "tokens first"])
@pytest.mark.parametrize("options", [OPTIONS["plain"], OPTIONS["window and sinks"]], ids=["plain", "window and sinks"])
def test_metadata_by_the_builders_for_gpus(host, tokens_first, options):
    layer = layer_for_gpus(host, tokens_first, **options)
    for i, batch in enumerate(batches("gpu_batches.json")):
        made = layer.builder.build(0, batch)
        names = ("num_actual_tokens", "max_query_len", "query_start_loc", "seq_lens", "block_table", "causal")
        assert all(torch.equal(*map(torch.as_tensor, (getattr(made, x), getattr(batch, x)))) for x in names)
        found, expected = layer.step(batch, seed=10 * (i // 2))  # a step padded has the same tokens
        tokens = len(expected)
        assert batch.padded or tokens == batch.num_actual_tokens
        close(found[:tokens], expected)
        assert found[tokens:].isnan().all()


@pytest.mark.parametrize("tokens_first", [False, True], ids=["heads first", "tokens first"])
def test_batches_in_one_place_in_a_cache_for_gpus(host, tokens_first):
    for found, expected in steps_in_one_place(layer_for_gpus(host, tokens_first), captured=lambda step: step):
        close(found, expected)


def test_a_layer_that_shares_its_cache(host):
    layer, batch = Layer(), next(batches())
    layer.step(batch)
    q = numbers(8, batch.num_actual_tokens, HQ, D)
    close(layer.attend(q, None, None, batch), layer.expected(q, batch))


@pytest.mark.parametrize("kind", ["encoder", "encoder_only"])
@pytest.mark.parametrize("window", [None, 4])
def test_encoders_have_no_cache(host, kind, window):
    layer, batch = Layer(attn_type=kind, sliding_window=window), next(batches())
    q, k, v = numbers(1, 35, HQ, D), numbers(2, 35, HK, D), numbers(3, 35, HK, D)
    layer.impl.do_kv_cache_update(layer, k, v, torch.empty(0), batch.slot_mapping)
    layer.cache = torch.empty(0)
    found = layer.attend(q, k, v, batch)
    rows = zip(*(x[:32].split(batch.query_start_loc.diff().tolist()) for x in (q, k, v)))
    close(found[:32], torch.cat([layer.plain(*row, False) for row in rows]))
    assert found[32:].isnan().all()


def test_cross_attention_sees_all_keys_of_the_encoder(host):
    layer, batch = Layer(attn_type="encoder_decoder"), next(batches())
    layer.write(numbers(1, 32, HK, D), numbers(2, 32, HK, D), batch.slot_mapping)
    batch.query_start_loc, batch.max_query_len, batch.num_actual_tokens = ints(0, 1, 3, 4, 5), 2, 5
    q = numbers(3, 5, HQ, D)
    batch.causal = False
    close(layer.attend(q, None, None, batch), layer.expected(q, batch))


def test_windows_of_both_sides_where_it_is_not_causal(host):
    layer, batch = Layer(sliding_window=5), next(batches())
    batch.causal = False
    close(*layer.step(batch))


def test_results_do_not_depend_on_the_batch(host):
    host.envs.VLLM_BATCH_INVARIANT = True
    layer, steps = Layer(), list(batches())
    for i, batch in enumerate(steps):
        found, expected = layer.step(batch, seed=10 * i)
        close(found, expected)
    batch, q = steps[-1], numbers(50, steps[-1].num_actual_tokens, HQ, D)
    for i in range(batch.num_reqs):
        alone = next(batches())
        alone.num_actual_tokens = alone.max_query_len = 1
        alone.query_start_loc, alone.seq_lens = ints(0, 1), batch.seq_lens[i : i + 1]
        alone.block_table_tensor = batch.block_table_tensor[i : i + 1]
        assert torch.equal(layer.attend(q[i : i + 1], None, None, alone), found[i : i + 1])


def test_the_promise_is_made_to_the_library(host, monkeypatch):
    import regard.vllm.impl

    for on in (False, True):
        host.envs.VLLM_BATCH_INVARIANT = on
        layer, options = Layer(), {}
        monkeypatch.setattr(regard.vllm.impl, "attention", lambda *_, o=options, **given: o.update(given))
        layer.attend(numbers(1, 32, HQ, D), None, None, next(batches()))
        assert options.get("batch_invariant", False) == on


def test_warming_up_computes_nothing(host):
    layer, output = Layer(), torch.full((4, HQ, D), math.nan)
    assert layer.impl.forward(layer, output, output, output, torch.empty(0), None, output) is output
    assert output.isnan().all()


def test_tensors_are_made_while_vllm_warms_up_and_stay_where_they_are(host):
    """A graph that is captured later reads them."""
    sinks = torch.tensor([1.0, -0.5, 2.0, 0.0], dtype=torch.bfloat16)
    layer, output = Layer(sinks=sinks, alibi_slopes=[0.5, 0.25, 0.125, 0.0625]), torch.empty(4, HQ, D)
    layer.impl.process_weights_after_loading(torch.float32)
    layer.impl.forward(layer, output, output, output, torch.empty(0), None, output)
    made = dict(layer.impl._tensors)
    assert {name: x.dtype for name, x in made.items()} == {"sink": torch.float32, "alibi": torch.float32}
    sinks += 1  # loaded again
    layer.impl.process_weights_after_loading(torch.float32)
    assert all(layer.impl._tensors[name] is x for name, x in made.items())
    assert torch.equal(made["sink"], sinks.float())
