"""Run by `./dev wheel --check` in a root that has only Python and NumPy: the installed wheel computes attention."""

import shutil

import numpy

import reference
import regard

compilers = [name for name in ("c++", "g++", "clang++", "nvcc") if shutil.which(name)]
assert not compilers, f"this root is not bare: it has {compilers}"

random = numpy.random.default_rng(0)
for dtype, tolerance in (("float32", 1e-5), ("float16", 5e-3)):
    for d in (64, 59):
        q, grad_o = (random.standard_normal((2, 70, 4, d)).astype(dtype) for _ in range(2))
        k, v = (random.standard_normal((2, 70, 2, d)).astype(dtype) for _ in range(2))
        o, lse = regard.attention(q, k, v, causal=True, lse=True)
        gradients = regard.attention_backward(grad_o, q, k, v, o, lse, causal=True)

        transposed = [x.swapaxes(1, 2) for x in (grad_o, q, k, v)]
        options = reference.Options(reference.visible(2, 4, 70, 70, causal=True))
        expected = [
            reference.attention(*transposed[1:], options)[0],
            *reference.gradients(*transposed, options)[:3],
        ]
        for name, x, right in zip(("o", "grad_q", "grad_k", "grad_v"), (o, *gradients), expected):  # noqa: B905
            error = abs(x.swapaxes(1, 2) - right).max()
            assert error < tolerance * max(1, abs(right).max()), f"{name} of {dtype} d={d} is off by {error}"
        print(f"{dtype} d={d}: forward and backward agree with the reference")

with open("/proc/self/maps") as maps:
    loaded = sorted({line.split()[-1] for line in maps if "regard" in line and ".so" in line})
print("loaded:", *loaded, sep="\n  ")
