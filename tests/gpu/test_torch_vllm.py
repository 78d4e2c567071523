"""regard.vllm on a GPU without vLLM: batches of a server, with and without a captured graph, are those of the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("python", "python/vllm_front")]
from vllm_cases import Layer, close, gpu_cache, steps_in_one_place  # noqa: E402
from vllm_host import Host  # noqa: E402

from planned import captured  # noqa: E402


@pytest.fixture
def host():
    found = Host()
    found.is_cpu = False
    found.install()
    yield found
    found.remove()


OPTIONS = {
    "plain": {},
    "window and sinks": {"sliding_window": 33, "sinks": torch.tensor([1.0, -0.5, 2.0, 0.0])},
    "soft cap and slopes": {"logits_soft_cap": 3.0, "alibi_slopes": [0.5, 0.25, 0.125, 0.0625]},
}


def layer_on_gpu(tokens_first, **options):
    layer = Layer(torch.bfloat16, **options)
    layer.cache = gpu_cache(tokens_first, layer.dtype, "cuda")
    return layer


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("tokens_first", [False, True], ids=["heads first", "tokens first"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_batches_of_a_server(host, options, tokens_first, graph):
    layer = layer_on_gpu(tokens_first, **options)
    replayed = (lambda step: captured(step)[0]) if graph else (lambda step: step)
    for found, expected in steps_in_one_place(layer, replayed, "cuda"):
        close(found, expected, 3e-2)
