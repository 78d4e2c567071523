"""JAX transformations, devices and threads; and no memory or state is left over."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy
import pytest
from beside import arrays, close, normal
from jax.sharding import Mesh, PartitionSpec

import regard.jax
from regard import _core
from regard.jax import run, targets

pytestmark = pytest.mark.no_compiler


def theirs(q, k, v, **options):
    return jax.nn.dot_product_attention(q, k, v, **options)


def ours(q, k, v, **options):
    return regard.jax.attention(q, k, v, **options)


def loss_of(attend, **options):
    return lambda *arrays: (attend(*arrays[:3], **dict(zip(["bias"], arrays[3:], strict=False)), **options) ** 2).sum()


def stacked(random, n, *sizes):
    return [jnp.stack(of) for of in zip(*[arrays(random, *sizes) for _ in range(n)], strict=True)]


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        ((0, 0, 0, None), (1, 4, 17, 23)),
        ((None, 0, None, 0), (1, 4, 17, 23)),
        ((0, None, 0, 0), (2, 1, 17, 23)),
        ((0, 0, 0, None), (2, 4, 1, 23)),
    ],
    ids=str,
)
def test_vmap_then_grad_and_grad_then_vmap(random, axes, shape):
    mapped = [*stacked(random, 3, 2, 4, 2, 17, 23, 40), jnp.stack([normal(random, *shape) for _ in range(3)])]
    given = [x if axis == 0 else x[0] for x, axis in zip(mapped, axes, strict=True)]
    for transformed in (
        lambda loss: jax.vmap(jax.grad(loss, (0, 1, 2, 3)), axes),
        lambda loss: jax.grad(lambda *of: jax.vmap(loss, axes)(*of).sum(), (0, 1, 2, 3)),
    ):
        found, expected = (jax.jit(transformed(loss_of(attend)))(*given) for attend in (ours, theirs))
        jax.tree.map(close, found, expected)


@pytest.mark.parametrize("layout", ["bshd", "bhsd", "sbhd"])
def test_vmap_over_any_axis_and_twice(random, layout):
    q, k, v = stacked(random, 3, 2, 4, 2, 17, 23, 40)
    attend = lambda q, k, v: ours(q, k, v, layout=layout, causal=True, lse=True)  # noqa: E731
    places = ["bshd".index(axis) for axis in layout]
    q, k, v = (x.transpose(0, *[1 + place for place in places]) for x in (q, k, v))
    one_by_one = [attend(*of) for of in zip(q, k, v, strict=True)]
    for place, found in enumerate(jax.vmap(attend, (3, 3, 3))(*(jnp.moveaxis(x, 0, 3) for x in (q, k, v)))):
        close(found, jnp.stack([results[place] for results in one_by_one]))
    twice = jax.vmap(jax.vmap(attend))(*(jnp.stack([x, -x]) for x in (q, k, v)))
    close(twice[0][0], jnp.stack([results[0] for results in one_by_one]))


def test_vmap_of_what_has_no_larger_batch(random):
    """Packed sequences, a sink for each call, gradients that a batch shares: the calls run in sequence."""
    q, k, v = (normal(random, 3, t, h, 40) for t, h in ((20, 4), (26, 2), (26, 2)))
    offsets = jnp.asarray([[0, 4, 15], [0, 0, 20], [0, 11, 18]], jnp.int32)
    sinks = normal(random, 3, 4)

    def loss(q, k, v, offsets, sink):
        return (ours(q, k, v, offsets_q=offsets, offsets_k=offsets, sq=20, sk=20, sink=sink) ** 2).sum()

    found = jax.vmap(jax.grad(loss, (0, 1, 2, 4)))(q, k, v, offsets, sinks)
    one_by_one = [jax.grad(loss, (0, 1, 2, 4))(*of) for of in zip(q, k, v, offsets, sinks, strict=True)]
    for gradient, expected in zip(found, zip(*one_by_one, strict=True), strict=True):
        close(gradient, jnp.stack(expected))


def test_vmap_of_everything_that_folds(random):
    q, k, v = stacked(random, 3, 2, 4, 2, 17, 40, 40)
    options = {
        "alibi": jnp.abs(normal(random, 3, 4)),
        "lengths_k": jnp.asarray(random.integers(1, 40, (3, 2)), jnp.int32),
        "bits": regard.jax.pack_bits(random.random((3, 1, 4, 1, 40)) < 0.8),
        "ranges": jnp.asarray(numpy.stack([numpy.zeros((3, 1, 17)), numpy.full((3, 1, 17), 30)], -1), jnp.int32),
    }
    attend = lambda q, k, v, options: ours(q, k, v, **options)  # noqa: E731
    one_by_one = [attend(q[i], k[i], v[i], {name: x[i] for name, x in options.items()}) for i in range(3)]
    close(jax.vmap(attend)(q, k, v, options), jnp.stack(one_by_one))
    assert "while" not in str(jax.make_jaxpr(jax.vmap(attend))(q, k, v, options))
    first = {name: x[0] for name, x in options.items()}
    one_by_one = [attend(*of, first) for of in zip(q, k, v, strict=True)]
    close(jax.vmap(attend, (0, 0, 0, None))(q, k, v, first), jnp.stack(one_by_one))


def test_scan_and_checkpoint(random):
    q, k, v = arrays(random, 1, 2, 2, 17, 17, 40)

    def loss(attend):
        def layer(x, _):
            return jax.checkpoint(lambda x: x + attend(x, k, v))(x), None

        return lambda q: (jax.lax.scan(layer, q, length=3)[0] ** 2).sum()

    close(jax.jit(jax.grad(loss(ours)))(q), jax.jit(jax.grad(loss(theirs)))(q))


@pytest.mark.parametrize("around", [jax.checkpoint, jax.jit, jax.vmap])
def test_an_lse_that_nothing_is_computed_from_does_no_harm(random, around):
    """Although it has no gradient: inside transformations, and as part of a loop's state."""
    q, k, v = arrays(random, 1, 2, 2, 17, 17, 40)

    def loss(q):
        attend = around(lambda q: ours(q, k, v, lse=True))
        return jax.lax.scan(lambda carried, _: (attend(carried[0]), None), attend(q), length=2)[0][0].sum()

    assert jnp.isfinite(jax.jit(jax.grad(loss))(q[None] if around is jax.vmap else q)).all()


def mesh():
    if len(jax.devices()) < 8:
        pytest.skip("JAX began before this test could ask for eight devices")
    return Mesh(numpy.array(jax.devices()).reshape(2, 4), ("batch", "heads"))


@pytest.mark.parametrize("bias", [PartitionSpec(), PartitionSpec(None, "heads"), PartitionSpec("batch")], ids=str)
def test_shards_of_batch_and_heads(random, bias):
    """A bias that shards share gets the sum of their gradients."""
    q, k, v = arrays(random, 4, 8, 4, 17, 23, 40)
    shape = (4 if bias == PartitionSpec("batch") else 1, 8 if "heads" in bias else 1, 17, 23)
    given = (q, k, v, normal(random, *shape))
    each = PartitionSpec("batch", None, "heads")

    def attend(q, k, v, bias_of_all):
        on_shard = lambda q, k, v, bias: ours(q, k, v, bias=bias)  # noqa: E731
        return jax.shard_map(on_shard, mesh=mesh(), in_specs=(each, each, each, bias), out_specs=each)(
            q, k, v, bias_of_all
        )

    found = jax.jit(jax.value_and_grad(lambda *of: (attend(*of) ** 2).sum(), (0, 1, 2, 3)))(*given)
    expected = jax.jit(jax.value_and_grad(loss_of(theirs), (0, 1, 2, 3)))(*given)
    jax.tree.map(close, found, expected)


def test_shards_of_everything_else(random):
    """Dropout, a sink and lengths inside shard_map."""
    q, k, v = arrays(random, 4, 8, 4, 17, 23, 40)
    each, heads, batch = PartitionSpec("batch", None, "heads"), PartitionSpec("heads"), PartitionSpec("batch")
    sink, lengths = normal(random, 8), jnp.asarray([3, 23, 11, 7], jnp.int32)

    def attend(q, k, v, sink, lengths):
        return ours(q, k, v, sink=sink, lengths_k=lengths)

    sharded = jax.shard_map(attend, mesh=mesh(), in_specs=(each, each, each, heads, batch), out_specs=each)
    loss = lambda f: lambda *of: (f(*of, lengths) ** 2).sum()  # noqa: E731
    found = jax.jit(jax.grad(loss(sharded), (0, 1, 2, 3)))(q, k, v, sink)
    jax.tree.map(close, found, jax.jit(jax.grad(loss(attend), (0, 1, 2, 3)))(q, k, v, sink))

    def dropped(q, k, v):
        key = jax.random.fold_in(jax.random.key(1), jax.lax.axis_index(("batch", "heads")))
        return ours(q, k, v, dropout=0.5, key=key)

    o = jax.jit(jax.shard_map(dropped, mesh=mesh(), in_specs=each, out_specs=each))(q, k, v)
    assert jnp.isfinite(o).all()


def test_sharded_arrays_without_shard_map(random):
    q, k, v = arrays(random, 4, 8, 4, 17, 23, 40)
    place = jax.sharding.NamedSharding(mesh(), PartitionSpec("batch", None, "heads"))
    close(jax.jit(ours)(*(jax.device_put(x, place) for x in (q, k, v))), theirs(q, k, v))


def test_each_device_computes_what_lies_there(random):
    q, k, v = arrays(random, 1, 2, 2, 17, 23, 40)
    expected = ours(q, k, v)
    for device in jax.devices():
        o = ours(*(jax.device_put(x, device) for x in (q, k, v)))
        assert o.devices() == {device}
        numpy.testing.assert_array_equal(o, expected)


def test_threads_share_a_program(random):
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    program = jax.jit(jax.value_and_grad(loss_of(ours)))
    value, gradient = program(q, k, v)
    with ThreadPoolExecutor(8) as pool:
        for again, found in pool.map(lambda _: program(q, k, v), range(200)):
            assert again == value
            numpy.testing.assert_array_equal(found, gradient)


def test_a_repeated_call_is_traced_once(random, monkeypatch):
    q, k, v = arrays(random, 1, 2, 2, 18, 23, 40)
    traced = []
    monkeypatch.setattr(run, "_program", lambda *of, _made=run._program, **options: traced.append(of) or _made(*of))
    for _ in range(3):
        ours(q, k, v, causal=True, scale=0.5)
    assert len(traced) == 1
    ours(q, k, v, causal=True, scale=0.25)
    assert len(traced) == 2


def test_a_compiled_call_follows_a_later_choice(random):
    q, k = (normal(random, 1, sk, 4, 64) for sk in (1, 300))
    attend = jax.jit(ours)
    before = jax.block_until_ready(attend(q, k, k))
    asked = []
    regard.choose_by(lambda problem, target, candidates: asked.append(target) or [*candidates][-1])
    try:
        after = [attend(q, k, k) for _ in range(2)]
        jax.block_until_ready(after)
    finally:
        regard.choose_by(None)
    assert len(asked) == 1
    close(after[0], before)


def test_a_program_that_may_run_on_two_platforms(random, monkeypatch):
    """A program that one platform refuses raises an error when it runs there; elsewhere it runs."""
    q, k, v = arrays(random, 1, 2, 2, 19, 23, 40)
    monkeypatch.setattr(run, "platforms", lambda: {"cpu": None, "cuda": "sm_90a"})
    close(jax.jit(ours)(q, k, v), theirs(q, k, v))
    found, expected = (jax.jit(jax.grad(loss_of(attend), (0, 1, 2)))(q, k, v) for attend in (ours, theirs))
    jax.tree.map(close, found, expected)


def test_scratch_memory_and_zeros_are_buffers_of_the_program(random):
    """Nothing is allocated in a call: all the memory that it needs besides its arrays is in the program's text."""
    q, k, v = arrays(random, 2, 4, 2, 17, 23, 40)
    loss = loss_of(ours, lengths_k=jnp.asarray([3, 4], jnp.int32))
    text = jax.jit(jax.grad(loss, (0, 1, 2))).lower(q, k, v).as_text()
    backward = [line for line in text.splitlines() if _core.XLA_TARGET in line and '"bwd ' in line]
    assert len(backward) == 1
    assert "ui8>" in backward[0].rpartition("->")[2]
    assert "output_operand_alias" in backward[0]


def test_the_name_of_the_target_is_the_library_s():
    """Registering the same handlers again under the same name is harmless; XLA checks each one's version."""
    assert set(_core.xla_handlers()) == {"cpu", "CUDA", "ROCM"}
    assert set(targets.platforms()) == {"cpu"} or jax.devices("cuda")
    text = jax.jit(ours).lower(*(jnp.zeros((1, 3, 1, 8)),) * 3).as_text()
    assert f"@{_core.XLA_TARGET}" in text


ALLOWED = jax.export.DisabledSafetyCheck.custom_call(regard.jax.TARGET)


def test_an_exported_program_runs_on_another_machine(random, tmp_path):
    """One with more cores and another CPU target, for which the program's workspace is too small; with gradients."""
    q, k, v = given = arrays(random, 1, 2, 2, 200, 200, 64)
    exported = jax.export.export(jax.jit(loss_of(ours, causal=True)), disabled_checks=[ALLOWED])(q, k, v)
    (tmp_path / "program").write_bytes(exported.serialize(vjp_order=1))
    gradients = jax.grad(loss_of(theirs, is_causal=True), (0, 1, 2))(q, k, v)
    numpy.savez(tmp_path / "arrays.npz", *given, *gradients)
    threads = 4 * (os.cpu_count() or 1)
    here, there = (
        regard.plan("fwd fp32 h=2 s=200 d=64 mask=causal lse", threads=n).workspace_bytes for n in (0, threads)
    )
    assert here < there
    environment = {**os.environ, "REGARD_THREADS": str(threads), "REGARD_CPU_TARGET": "cpu-avx2"}
    program = Path(__file__).parent / "run_exported.py"
    done = subprocess.run([sys.executable, program, tmp_path], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_program_is_exported_for_gpus_from_a_machine_without(random):
    q, k, v = arrays(random, 1, 2, 2, 17, 23, 40)
    exported = jax.export.export(jax.jit(ours), platforms=["cpu", "cuda"], disabled_checks=[ALLOWED])(q, k, v)
    assert 'target = ""' in exported.mlir_module()
    numpy.testing.assert_array_equal(exported.call(q, k, v), ours(q, k, v))


def test_symbolic_shapes_are_refused(random):
    b, s = jax.export.symbolic_shape("b, s")
    q = jax.ShapeDtypeStruct((b, s, 2, 40), jnp.float32)
    for attend in (ours, regard.jax.dot_product_attention, regard.jax.flash_attn_func):
        with pytest.raises(
            regard.RefusedError, match=r"q.* has the symbolic shape \[b, s, 2, 40\]: export a program for"
        ):
            jax.export.export(jax.jit(attend), disabled_checks=[ALLOWED])(q, q, q)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_ten_thousand_calls_leave_nothing(random):
    q, k, v = arrays(random, 1, 2, 2, 17, 23, 40)
    fails = jnp.asarray([99], jnp.int32)
    program = jax.jit(lambda q, lengths: ours(q, k, v, lengths_k=lengths))

    def some(calls):
        for _ in range(calls // 10):
            for _ in range(9):
                ours(q, k, v).block_until_ready()
            with pytest.raises((jax.errors.JaxRuntimeError, ValueError)):
                program(q, fails).block_until_ready()

    def growth():
        before = resident_bytes()
        some(10_000)
        return resident_bytes() - before

    some(1000)
    # A leak grows each time; what the allocator keeps of other tests does not.
    assert any(growth() < 8 * 2**20 for _ in range(3))
