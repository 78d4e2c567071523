"""regard bench --peers on a GPU: PyTorch's attention and cuDNN's compute what Regard does, and are timed."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU", allow_module_level=True)

from here import KIND, targets  # noqa: E402
from regard.bench import main  # noqa: E402


def test_forward_backward_and_decoding(capsys):
    problems = [
        "fwd bf16 b=2 hq=8 hk=2 s=256 d=64 mask=causal",
        "fwd bf16 b=2 hq=8 hk=2 sq=1 sk=300 d=128 mask=causal",
        "bwd bf16 b=2 h=4 s=256 d=64 mask=causal",
    ]
    cells = [
        {"problem": text, "forward": text.replace("bwd", "fwd") + " lse" if "bwd" in text else ""} for text in problems
    ]
    cells = [{**cell, "flops": 1e9, "target": KIND, "family": ""} for cell in cells]
    asked = {"cells": cells, "peers": ["torch", "cudnn"], "threads": 0, "rounds": 2, "seed": 1, "commit": ""}
    assert main.report({**asked, "machine": "a CPU"}) == 0
    for line in map(json.loads, capsys.readouterr().out.splitlines()):
        assert line["machine"] == torch.cuda.get_device_name() and line["target"] in targets()
        assert line["regard_ms"] > 0 and line["peers"]["torch"] > 0, line["peers_refused"]
        assert line["peers"]["cudnn"] is not None or line["peers_refused"]["cudnn"]
