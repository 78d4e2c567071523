"""Runs a program that jax.export saved on another machine, which REGARD_THREADS and other settings simulate."""

import sys
from pathlib import Path

import jax
import numpy

import regard.jax  # noqa: F401  registers its target

folder = Path(sys.argv[1])
q, k, v, *expected = numpy.load(folder / "arrays.npz").values()
program = jax.export.deserialize(bytearray((folder / "program").read_bytes()))
for gradient, correct in zip(jax.jit(jax.grad(program.call, (0, 1, 2)))(q, k, v), expected, strict=True):
    numpy.testing.assert_allclose(gradient, correct, atol=2e-5 * abs(correct).max(), rtol=2e-5)
