"""The programs of examples/torch, for a few steps: models learn with Regard as they do with PyTorch's attention."""

import sys
from xml.etree import ElementTree

import pytest
from places import ROOT

torch = pytest.importorskip("torch")

EXAMPLES = ROOT / "examples/torch"
LARGEST_DIFFERENCE = 1e-5  # of two losses near 3, before training amplifies rounding


@pytest.fixture
def example(monkeypatch):
    """An example as a separate module, next to its imports, on one core: others may need the rest."""
    monkeypatch.syspath_prepend(EXAMPLES)
    before, threads = set(sys.modules), torch.get_num_threads()
    torch.set_num_threads(1)
    yield lambda name: __import__(name)
    torch.set_num_threads(threads)
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(EXAMPLES)):
            del sys.modules[name]


def falls_alike(losses):
    theirs, ours = losses.values()
    assert max(abs(one - other) for one, other in zip(theirs, ours)) < LARGEST_DIFFERENCE
    assert ours[-1] < ours[0] - 0.3


def test_a_gpt_learns_as_with_sdpa(example):
    losses = example("gpt").train(steps=12)
    assert list(losses) == ["sdpa", "regard"]
    falls_alike(losses)


def test_a_bert_learns_from_packed_stories_as_from_padded_ones(example):
    losses, times = example("bert_varlen").train(steps=12)
    assert list(losses) == list(times) == ["padded, sdpa", "packed, regard"]
    falls_alike(losses)


def test_a_gpt_learns_from_documents_as_with_a_matrix_of_what_is_seen(example):
    losses, times = example("documents").train(steps=8)
    assert list(losses) == list(times) == ["sdpa, matrix", "regard, function"]
    falls_alike(losses)


def test_the_programs_say_how_far_apart_the_losses_are(example, tmp_path, capsys):
    file = tmp_path / "gpt.svg"
    example("gpt").main(["--steps=2", f"--picture={file}"])
    example("bert_varlen").main(["--steps=2"])
    example("documents").main(["--steps=2"])
    assert capsys.readouterr().out.count("The losses are apart by") == 3
    curves = [path for path in ElementTree.parse(file).findall("{*}path") if "L" in path.get("d")]
    assert len(curves) == 2


def test_a_server_with_a_paged_cache_gives_the_tokens_of_the_model_without_one(example, capsys):
    example("serving").main(["--requests=5", "--together=3", "--pages=24", "--device=cpu"])
    assert "5 of 5 requests have the tokens of the model without a cache" in capsys.readouterr().out
