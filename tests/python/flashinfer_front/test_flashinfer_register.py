"""`import flashinfer` finds regard.flashinfer, the page's code runs, and PyTorch compiles runs."""

import subprocess
import sys

import places
import pytest

torch = pytest.importorskip("torch")
from flashinfer_cases import WORKSPACE, Pages  # noqa: E402

import regard.flashinfer as flashinfer  # noqa: E402
from cached import ints, numbers  # noqa: E402

pytestmark = pytest.mark.no_compiler


def run(program, *path):
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {[str(p) for p in path]}\n{program}"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_code_of_the_page_runs():
    page = (places.ROOT / "docs/flashinfer.md").read_text()
    blocks = [block.partition("```")[0] for block in page.split("```python\n")[1:]]
    assert len(blocks) == 2
    try:
        exec("\n".join(blocks), {"__name__": "page"})
    finally:
        flashinfer.unregister()


def test_looks_like_an_installed_package(tmp_path):
    (tmp_path / "flashinfer").mkdir()
    (tmp_path / "flashinfer/__init__.py").write_text("__version__ = '0.1'\n")
    run(
        """
import importlib.metadata, warnings
import regard.flashinfer
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    regard.flashinfer.register()
assert str(told[0].message).startswith("flashinfer is installed (")
import flashinfer, flashinfer.decode, flashinfer.prefill, flashinfer.page, flashinfer.cascade, flashinfer.mla
assert flashinfer.BatchDecodeWithPagedKVCacheWrapper is regard.flashinfer.BatchDecodeWithPagedKVCacheWrapper
assert flashinfer.__version__ == importlib.metadata.version("flashinfer-python") == "0.6.18"
try:
    import flashinfer.sampling
    raise AssertionError("there is no sampling here")
except ModuleNotFoundError:
    pass
regard.flashinfer.unregister()
import flashinfer
assert flashinfer.__version__ == "0.1"
""",
        tmp_path,
    )


def test_compiled_runs():
    pages, d = Pages([9, 6], 4, 2, 16), 16
    cache, q = pages.cache("one NHD"), numbers(7, 2, 4, d)
    decode, prefill = (kind(WORKSPACE) for kind in (
        flashinfer.BatchDecodeWithPagedKVCacheWrapper, flashinfer.BatchPrefillWithPagedKVCacheWrapper
    ))  # fmt: skip
    decode.plan(*pages.lists, 4, 2, d, 4, q_data_type=torch.float32)
    prefill.plan(ints(0, 1, 2), *pages.lists, 4, 2, d, 4, q_data_type=torch.float32)
    memory = torch.empty_like(q), torch.empty(2, 4)

    @torch.compile(backend="eager", fullgraph=True)
    def both(q, cache, out, lse):
        return decode.run(q, cache, out=out, lse=lse, return_lse=True), prefill.run(q, cache, return_lse=True)

    for found, wrapper in zip(both(q, cache, *memory), (decode, prefill)):
        for one, right in zip(found, wrapper.run(q, cache, return_lse=True)):
            assert torch.equal(one, right)
    assert torch.equal(memory[0], decode.run(q, cache))


def test_compiled_appends_and_merges():
    torch._dynamo.reset()
    pages, rows = Pages([9, 6], 4, 2, 16), numbers(7, 3, 2, 16)
    first, other, scores = numbers(1, 5, 3, 8), numbers(2, 5, 3, 8), numbers(3, 2, 5, 3)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def step(cache, rows, tokens, first, other, scores):
        indptr, indices, last = pages.lists
        flashinfer.append_paged_kv_cache(rows, rows, *tokens, cache, indices, indptr, last)
        merged = flashinfer.merge_state(first, scores[0], other, scores[1])
        flashinfer.merge_state_in_place(first, scores[0], other, scores[1])
        return merged, flashinfer.merge_states(torch.stack((first, other), 1), scores.transpose(0, 1))

    def results(step):
        cache, *state = pages.cache("one NHD").clone(), first.clone(), other, scores.clone()
        merged, several = step(cache, rows, (ints(0, 1, -1), ints(8, 5, 0)), *state)
        return [*merged, *several, cache.nan_to_num(7.0), *state]

    assert all(map(torch.equal, results(step), results(step._torchdynamo_orig_callable)))
