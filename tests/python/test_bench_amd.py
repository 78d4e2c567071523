"""bench/gpu on AMD GPUs: the peers that are installed, by modules that only pretend to be them."""

import math
import sys
import types

import pytest
from places import ROOT

torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT))

from bench.gpu import amd_peers, backward, contestants, forward  # noqa: E402
from bench.gpu.cells import Cell  # noqa: E402

CELL = Cell("grid a", "grid", 1, 2, 2, 64, 64, 32, 32, causal=True)
PACKED = Cell("cases packed", "cases", 2, 2, 2, 40, 40, 32, 32, lengths=(24, 40))


def flash_attn_func(q, k, v, causal=False, window_size=(-1, -1), deterministic=False):
    if window_size != (-1, -1):
        raise NotImplementedError("no windows")
    o = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=causal)
    return o.transpose(1, 2), None  # LSE may come with it


def flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, causal=False):
    assert cu_seqlens_q.tolist() == cu_seqlens_k.tolist() == [0, 24, 64] and (max_seqlen_q, max_seqlen_k) == (40, 40)
    parts = zip(*(x.split([24, 40]) for x in (q, k, v)), strict=True)
    return torch.cat([flash_attn_func(*(x[None] for x in part), causal)[0][0] for part in parts])


@pytest.fixture
def rocm(monkeypatch):
    """A PyTorch for ROCm whose GPU is the CPU; rocm("aiter", …) pretends that these modules are installed."""
    for module in (amd_peers, forward, backward):
        monkeypatch.setattr(module, "HIP", True)
    for name in ("randn", "tensor", "empty"):
        make = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *sizes, make=make, **named: make(*sizes, **named | {"device": "cpu"}))

    def install(*names):
        amd_peers.found.cache_clear()
        for name in {name.split(".")[0] for places in amd_peers.MODULES.values() for name in places}:
            monkeypatch.setitem(sys.modules, name, None)  # not installed
        for name in names:
            module = types.ModuleType(name)
            module.flash_attn_func, module.flash_attn_varlen_func = flash_attn_func, flash_attn_varlen_func
            module.__path__ = []
            monkeypatch.setitem(sys.modules, name, module)

    yield install
    amd_peers.found.cache_clear()


def test_each_missing_one_is_named_in_a_line(rocm, capsys):
    rocm("aiter")
    assert list(amd_peers.found()) == ["aiter"]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["ck is not measured", "triton is not measured"]
    assert "flash_attn" in lines[0] and "aiter.ops" in lines[1]
    amd_peers.found()
    assert capsys.readouterr().out == ""


def test_flash_attn_with_triton_is_not_ck(rocm, capsys):
    rocm("flash_attn")
    sys.modules["flash_attn"].flash_attn_interface = types.SimpleNamespace(USE_TRITON_ROCM=True)
    assert not amd_peers.found()
    assert "FLASH_ATTENTION_TRITON_AMD_ENABLE" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["aiter.ops.triton.attention.mha", "aiter.ops.triton.mha"])
def test_triton_is_found_at_its_old_and_at_its_new_place(rocm, place):
    parts = place.split(".")
    rocm(*(".".join(parts[:count]) for count in range(1, len(parts) + 1)))
    assert amd_peers.found()["triton"].__name__ == place


def test_on_nvidia_there_are_none(monkeypatch, capsys):
    amd_peers.found.cache_clear()
    monkeypatch.setattr(amd_peers, "HIP", False)
    assert amd_peers.found() == {} and capsys.readouterr().out == ""
    amd_peers.found.cache_clear()


@pytest.mark.parametrize("cell", [CELL, PACKED], ids=lambda cell: cell.name)
def test_forward_is_compared_and_measured_beside_them(rocm, monkeypatch, cell):
    rocm("aiter", "flash_attn")

    def of_regard(cell, q, k, v, family):
        o = amd_peers.attention(amd_peers.found()["ck"], cell)(q, k, v).clone()
        return (lambda: o), o

    monkeypatch.setattr(forward, "of_regard", of_regard)
    monkeypatch.setattr(forward, "interleaved", lambda calls, _: {name: [float(len(name))] for name in calls})
    line = forward.measure(cell, [""], 1)
    assert {"regard", "aiter", "ck"} <= line["tflops"].keys() and line["differences"]["regard"] == 0
    assert line["over_aiter"] == pytest.approx(5 / 6, abs=0.05) and line["over_ck"] == pytest.approx(2 / 6, abs=0.05)
    monkeypatch.setattr(forward, "of_regard", lambda cell, q, *_: ((lambda: q), torch.full_like(q, math.inf)))
    with pytest.raises(SystemExit, match="differs from a peer"):
        forward.measure(cell, [""], 1)


def test_what_one_refuses_is_in_the_line(rocm):
    rocm("aiter")
    q, k, v = contestants.tensors(CELL)
    for changes, why in (({"window": 5}, "no windows"), ({"softcap": 3.0}, "not measured with softcap or fp8")):
        cell, refused = Cell(**{**vars(CELL), **changes}), {}
        assert amd_peers.calls(cell, lambda compute: lambda: compute(q, k, v), refused) == {}
        assert refused == {"aiter": why}


def test_backward_is_that_of_what_autograd_recorded(rocm):
    rocm("aiter")
    q, k, v = (x.float() for x in contestants.tensors(CELL))
    of = backward.Inputs(q, k, v, torch.ones_like(q), None, None)
    refused = {}
    calls = amd_peers.calls(CELL, lambda compute: backward.recorded(compute, of), refused)
    assert not refused and [x.shape for x in calls["aiter"]()] == [q.shape, k.shape, v.shape]
