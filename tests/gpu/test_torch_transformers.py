"""Models of transformers on a GPU: logits, gradients and generated tokens against "eager"."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if not torch.cuda.is_available():
    pytest.skip("this PyTorch sees no GPU", allow_module_level=True)
import regard.torch.transformers  # noqa: E402
from here import run  # noqa: E402
from tests.python.torch_front import tiny_models as models  # noqa: E402

regard.torch.transformers.register()


def by_each(model, result):
    """The result() of the model with "eager", then with "regard"."""
    results = []
    for name in ("eager", "regard"):
        model.set_attn_implementation(name)
        with torch.no_grad():
            results.append(result())
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["none", "left", "right", "gaps"])
@pytest.mark.parametrize("name", models.FAMILIES)
def test_logits(name, kind, dtype):
    model, mask = models.model_of(name).to("cuda", dtype), models.padding(kind).cuda()
    theirs, ours = by_each(model, lambda: model(input_ids=models.ids().cuda(), attention_mask=mask).logits[mask.bool()])
    scale = theirs.abs().max().item()
    assert (ours - theirs).abs().max().item() < scale * (1e-3 if dtype == torch.float32 else 0.1)


@pytest.mark.parametrize("kind", ["none", "left", "gaps"])
@pytest.mark.parametrize("name", models.FAMILIES)
def test_gradients(name, kind):
    model, mask = models.model_of(name).to("cuda"), models.padding(kind).cuda()
    found = []
    for implementation in ("eager", "regard"):
        model.set_attn_implementation(implementation)
        model.zero_grad()
        model(input_ids=models.ids().cuda(), attention_mask=mask).logits[mask.bool()].square().mean().backward()
        found.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    theirs, ours = found
    assert ours.keys() == theirs.keys()
    for parameter, gradient in ours.items():
        bound = 2e-3 * theirs[parameter].abs().max() + 1e-6  # BERT's keys have a bias, whose gradient is 0
        assert (gradient - theirs[parameter]).abs().max() <= bound, parameter


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", models.DECODERS)
def test_generated_tokens(name, cache):
    model = models.model_of(name).cuda()
    options = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "disable_compile": True}
    for kind in ("none", "left"):
        inputs = {"input_ids": models.ids().cuda(), "attention_mask": models.padding(kind).cuda()}
        theirs, ours = by_each(model, lambda: model.generate(**inputs, **options, cache_implementation=cache))  # noqa: B023
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", ["llama", "gemma 2"])
def test_continuous_batching_through_flash_attn(name):
    """Also in CUDA graphs, which transformers captures for decoding."""
    if not hasattr(transformers, "ContinuousBatchingConfig"):
        pytest.skip("this transformers has no continuous batching")
    done = run(sys.executable, str(Path(__file__).with_name("continuous_batching.py")), name, "cuda")
    assert done.returncode == 0, done.stderr[-3000:]
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["found"] == line["expected"] and line["calls"]["flash_attn_varlen_func"], line
    assert name != "llama" or line["calls"]["flash_attn_with_kvcache"], line
