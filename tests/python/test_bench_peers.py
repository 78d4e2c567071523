"""regard bench --peers: which peers take part, which do not and why, and that all of them compute the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import BUILD

torch = pytest.importorskip("torch")

import regard.flash_attn  # noqa: E402
from regard.bench import main, peers  # noqa: E402
from regard.bench.cell import make_cell  # noqa: E402

ROUNDS = 3


def bench(*words, path=Path(sys.executable).parent):
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}" if path else "/nothing"}
    return subprocess.run([BUILD / "regard", "bench", *words], env=environment, capture_output=True, text=True)


def test_the_command_measures_pytorch_beside_regard():
    forward, decode = "fwd fp32 h=2 s=32 d=64 mask=causal", "fwd fp32 hq=4 hk=2 sq=1 sk=65 d=64 mask=causal"
    backward = "bwd fp32 b=1 h=2 s=32 d=64 softcap=2"
    words = [
        forward,
        decode,
        backward,
        "--peers",
        "torch,cudnn",
        "--rounds",
        str(ROUNDS),
        "--commit=abc",
        "--threads=1",
    ]
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [regard.Problem(line["problem"]) for line in lines] == [
        regard.Problem(x) for x in (forward, decode, backward)
    ]
    alone = json.loads(bench(forward, "--rounds=1", "--threads=1").stdout)
    for line in lines:
        assert alone.keys() <= line.keys()
        assert len(line["samples_ms"]) == ROUNDS and line["threads"] == 1 and line["commit"] == "abc"
        assert line["peers"]["cudnn"] is None and "GPUs alone" in line["peers_refused"]["cudnn"]
    same = ("problem", "measure", "machine", "target", "kernel", "peak_bytes")
    assert [alone[name] for name in same] == [lines[0][name] for name in same]
    for line in lines[:2]:
        assert len(line["peers_samples_ms"]["torch"]) == ROUNDS and line["differences"]["torch"] < 1e-5
        ratios = sorted(a / b for a, b in zip(line["peers_samples_ms"]["torch"], line["samples_ms"], strict=True))
        assert line["over"] == {"torch": pytest.approx(ratios[ROUNDS // 2])}
    assert lines[2]["peers"] == {"torch": None, "cudnn": None} and lines[2]["over"] == {}
    assert lines[2]["peers_refused"]["torch"] == "it does not take softcap=2.0"


def test_what_cannot_be_measured(capsys):
    cells = [{"problem": "fwd fp32 h=2 s=32 d=64 bits", "forward": "", "target": "", "family": ""}]
    asked = {"cells": cells, "threads": 1, "rounds": 1, "seed": 1, "commit": "", "machine": "a CPU"}
    with pytest.raises(regard.InvalidError, match="--peers: 'tensorflow' is not a peer; use torch, cudnn, flash_attn"):
        main.report({**asked, "peers": ["torch", "tensorflow"]})
    assert main.report({**asked, "peers": ["torch"]}) == 3
    line = json.loads(capsys.readouterr().out)
    assert line["regard_ms"] is None and line["refused"].startswith("--peers makes no input for bits")


def test_a_python_without_regard_or_none_is_told(tmp_path):
    done = bench("fwd fp32 h=2 s=32 d=64", "--peers=torch", path=None)
    assert done.returncode == 2 and "--peers measures from Python, and python3 cannot be run" in done.stderr
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n')
    bare.chmod(0o755)
    done = bench("fwd fp32 h=2 s=32 d=64", "--peers=torch", path=tmp_path)
    assert done.returncode == 2 and "has no package regard: install it there, or put the python3" in done.stderr


def cell(text, **sequences):
    forward = text.replace("bwd", "fwd").replace(" deterministic", "") + " lse" if text.startswith("bwd") else ""
    return make_cell({"problem": text, "forward": forward, "target": "", "family": "", **sequences}, 1, 1)


PACKED = {"offsets_q": [0, 7, 40], "offsets_k": [0, 30, 41]}


@pytest.mark.parametrize(
    ("text", "taken", "sequences"),
    [
        ("fwd fp32 b=2 hq=4 hk=2 s=33 d=64 mask=causal layout=sbhd", ("torch", "flash_attn"), {}),
        ("fwd fp32 h=2 sq=17 sk=33 d=64 mask=causal scale=0.3", ("torch", "flash_attn"), {}),
        ("fwd fp32 h=2 sq=17 sk=33 d=64 mask=causal_top_left", ("torch",), {}),
        ("fwd fp32 h=2 s=33 d=64 mask=window:5,2", ("flash_attn",), {}),
        ("fwd fp32 h=2 s=33 d=64 mask=window:5,0,sink=2", (), {}),
        ("fwd fp32 h=2 s=33 d=64 bias=1h", ("torch",), {}),
        ("fwd fp32 h=2 s=33 d=64 bias=1h mask=causal", (), {}),
        ("fwd fp32 h=2 s=33 d=64 bias=alibi", ("flash_attn",), {}),
        ("fwd fp32 b=2 h=2 sq=33 sk=30 d=64 varlen tq=40 tk=41 mask=causal", ("flash_attn",), PACKED),
        ("fwd fp32 h=2 s=33 d=64 sink lse", (), {}),
        ("fwd fp32 h=2 s=33 d=64 dropout=0.5", (), {}),
        ("bwd fp32 b=2 hq=4 hk=2 s=33 d=64 mask=causal", ("torch", "flash_attn"), {}),
        ("bwd fp32 b=2 hq=4 hk=2 s=33 d=64 deterministic", ("flash_attn",), {}),
    ],
)
def test_peers_take_what_they_compute_and_nothing_else(monkeypatch, text, taken, sequences):
    """Regard's own functions stand in for those of flash_attn, which needs a GPU."""
    monkeypatch.setattr(peers, "_installed", lambda _: regard.flash_attn)
    monkeypatch.setattr(peers, "_needs_gpu", lambda _: None)
    one = cell(text, **sequences)
    calls = main.contestants(one, ["torch", "flash_attn"])
    assert tuple(calls) == ("regard", *taken), one.refused
    assert all(difference < 1e-5 for difference in one.differences.values())
    for name in {"torch", "flash_attn"} - set(taken):
        assert one.refused[name].startswith(("it does not take", "it aligns masks to the bottom-right diagonal"))


def test_a_peer_that_computes_something_else_is_not_timed(monkeypatch):
    one = cell("fwd fp32 h=2 s=33 d=64 mask=causal")
    monkeypatch.setitem(peers.PEERS, "wrong", lambda _: lambda: {"o": -one.call()()["o"]})
    assert list(main.contestants(one, ["wrong"])) == ["regard"]
    assert one.refused["wrong"] == "its result differs from Regard's by 2 of the largest value"


def test_a_flash_attn_that_is_regard_s_is_no_peer(monkeypatch):
    monkeypatch.setitem(sys.modules, "flash_attn", regard.flash_attn)
    one = cell("fwd fp32 h=2 s=33 d=64")
    assert list(main.contestants(one, ["flash_attn"])) == ["regard"]
    assert one.refused["flash_attn"] == "flash_attn is Regard's own here"
