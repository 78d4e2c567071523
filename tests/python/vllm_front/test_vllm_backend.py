"""vLLM's backend: how vLLM finds it, what it says it can do, and what it refuses."""

from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from vllm_cases import HK, HQ, PAGE, D, Layer, batches, defaults  # noqa: E402
from vllm_host import AttentionBackendEnum, AttentionType, Host  # noqa: E402

PYPROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


@pytest.fixture
def host():
    found = Host()
    found.install()
    yield found
    found.remove()


@pytest.fixture
def backend(host):
    from regard.vllm.backend import RegardBackend

    return RegardBackend


def test_the_package_has_the_plugin():
    (_, _, group) = PYPROJECT.read_text().partition('[project.entry-points."vllm.general_plugins"]\n')
    assert group.startswith('regard = "regard.vllm:register"\n')


def test_registered_under_its_name_and_as_the_only_one_of_cpus(host, backend):
    import regard.vllm

    path = f"{backend.__module__}.{backend.__name__}"
    regard.vllm.register()
    assert host.registered == {backend.get_name(): path, AttentionBackendEnum.CPU_ATTN: path}


def test_a_plugin_can_be_loaded_again(host, monkeypatch):
    from regard.vllm import register

    again = SimpleNamespace(__members__={"REGARD": None}, CPU_ATTN=AttentionBackendEnum.CPU_ATTN)
    monkeypatch.setitem(register.__globals__, "AttentionBackendEnum", again)
    register()
    assert list(host.registered) == [AttentionBackendEnum.CPU_ATTN]  # vLLM refuses a name that is there


def test_what_is_supported(host, backend):
    assert not backend.forward_includes_kv_cache_update
    assert all(backend.supports_attn_type(kind) for kind in (*AttentionType, "decoder"))
    assert not backend.supports_attn_type("sparse")
    assert [size for size in (0, 1, 48, 512, 576) if backend.supports_head_size(size)] == [1, 48, 512]
    assert {"auto", "fp8", "fp8_e5m2"} < set(backend.supported_kv_cache_dtypes)
    for word in ("sink", "sliding_window", "non_causal", "batch_invariance", "per_head_quant_scales"):
        assert getattr(backend, f"supports_{word}")()
    for word in ("mm_prefix", "rswa", "alibi_sqrt"):
        assert f"supports_{word}" not in vars(backend)  # vLLM's own answer is no
    assert backend.get_builder_cls()._cudagraph_support.name == "ALWAYS"


def test_a_cache_of_another_type_is_one_of_8_bits(backend):
    def combination(kv_cache_dtype):
        return backend.supports_combination(64, torch.float16, kv_cache_dtype, 16, False, False, False, False, None)

    assert all(combination(word) is None for word in (None, "auto", "float16", "fp8"))
    assert "a cache of bfloat16 is not supported with queries of torch.float16" in combination("bfloat16")


def test_layouts_and_connectors_depend_on_the_device(host, backend):
    assert [layout.name for layout in backend.supported_kv_cache_layouts()] == ["LBHNC"]
    assert not backend.supports_kv_connector()
    host.is_cpu = False
    assert backend.supported_kv_cache_layouts() is None and backend.supports_kv_connector()


def test_where_keys_lie_in_a_cache(host):
    from regard.vllm.caches import keys_and_values

    cache = torch.arange(3 * HK * PAGE * 2 * D).view(3, HK, PAGE, 2 * D)
    k, v = keys_and_values(cache, "auto", D, True)
    assert k.shape == v.shape == (3, PAGE, HK, D) and k.stride(1) == D
    assert torch.equal(v[1, 0, 1], cache[1, 1].flatten()[PAGE * D :][:D])

    rows = torch.empty(3, PAGE, HK, 2 * D, device="meta").transpose(1, 2)  # of a GPU, tokens before heads
    k, v = keys_and_values(rows, "auto", D, False)
    assert k.shape == v.shape == (3, PAGE, HK, D) and k.stride() == v.stride() == (
        HK * PAGE * 2 * D,
        2 * D * HK,
        2 * D,
        1,
    )
    assert (k.storage_offset(), v.storage_offset()) == (0, D)
    assert keys_and_values(rows.to(torch.uint8), "fp8_e5m2", D, False)[1].dtype == torch.float8_e5m2
    with pytest.raises(ValueError, match="rows of 64 numbers for heads of 48: on a CPU keys and values must have the"):
        keys_and_values(cache, "auto", 48, True)
    with pytest.raises(ValueError, match="the rows of a head's page lie together; those of this cache are 128 apart"):
        keys_and_values(cache.transpose(1, 2).contiguous().transpose(1, 2), "auto", D, True)


def test_metadata_holds_the_tensors_of_the_batch(host, backend):
    builder, batch = backend.get_builder_cls()(None, [], None, None), next(batches())
    made = builder.build(0, batch)
    assert made.seq_lens is batch.seq_lens and made.query_start_loc is batch.query_start_loc
    assert made.block_table is batch.block_table_tensor
    builder.update_draft_decode_metadata(made)
    table = batch.block_table_tensor + 1
    other = builder.update_block_table(made, table, batch.slot_mapping)
    assert other.block_table is table and made.block_table is not table and other.seq_lens is made.seq_lens


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("causal", torch.tensor([True, False]), "only some requests are causal"),
        ("mm_req_doc_ranges", {0: [(1, 3)]}, "tokens that see each other both ways"),
        ("rswa_prefix_lens", torch.tensor([1]), "windows with a visible prefix"),
    ],
)
def test_batches_that_are_refused(backend, field, value, sentence):
    batch = next(batches())
    setattr(batch, field, value)
    with pytest.raises(NotImplementedError, match=sentence):
        backend.get_builder_cls()(None, [], None, None).build(0, batch)


def test_layers_that_are_refused(host, backend):
    impl = backend.get_impl_cls()
    with pytest.raises(NotImplementedError, match="heads of 576 are not supported, only sizes from 1 to 512"):
        impl(HQ, 576, 1.0, HK, **defaults())
    with pytest.raises(NotImplementedError, match="kv_cache_dtype='nvfp4' is not supported: use 'auto' or one of"):
        impl(HQ, D, 1.0, HK, **{**defaults(), "kv_cache_dtype": "nvfp4"})
    with pytest.raises(NotImplementedError, match="output_scale"):
        layer = Layer()
        layer.impl.forward(layer, *[torch.empty(1, HQ, D)] * 3, layer.cache, None, torch.empty(1), torch.ones(1))
    host.config.kv_transfer_config = "nixl"
    with pytest.raises(NotImplementedError, match="KV connectors are not supported on a CPU"):
        Layer()
    host.is_cpu = False
    Layer()


@pytest.mark.parametrize("world", ["dcp_world_size", "pcp_world_size"])
def test_context_parallelism_is_refused(host, backend, monkeypatch, world):
    monkeypatch.setattr(backend.get_impl_cls(), world, 2)
    with pytest.raises(NotImplementedError, match="context parallelism is not supported"):
        Layer()
