"""Attention in fp64, written again and independently of the library's oracle: plain matrices, no optimisation.

Arrays are [b, h, s, d] here. `visible` is bool [b, hq, sq, sk].
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy


@dataclass
class Options:
    visible: numpy.ndarray
    scale: float | None = None
    softcap: float = 0.0
    bias: numpy.ndarray | None = None
    sink: numpy.ndarray | None = None
    kept: numpy.ndarray | None = None  # dropout mask
    keep_probability: float = 1.0


def visible(
    b, hq, sq, sk, causal=False, window=(-1, -1), top_left=False, sink_tokens=0, ranges=None, bits=None, lengths=None
):
    """Which keys each query sees, from the definitions of the design, one pair at a time."""
    result = numpy.zeros((b, hq, sq, sk), bool)
    for batch in range(b):
        length_q, length_k = (sq, sk) if lengths is None else (lengths[0][batch], lengths[1][batch])
        for i in range(length_q):
            diagonal = i if top_left else i + length_k - length_q
            for j in range(length_k):
                left, right = window
                seen = left < 0 or j >= diagonal - left or j < sink_tokens
                seen &= right < 0 or j <= diagonal + right
                seen &= not causal or j <= diagonal
                if ranges is not None:
                    low, high = ranges[batch % ranges.shape[0], i]
                    seen &= low <= j < high
                result[batch, :, i, j] = seen
                if bits is not None:
                    for head in range(hq):
                        word = bits[batch % bits.shape[0], head % bits.shape[1], i, j // 32]
                        result[batch, head, i, j] &= bool(int(word) >> (j % 32) & 1)
    return result


def philox(key, counter):
    """Philox4x32 with 7 rounds. Words are unsigned numbers below 2^32, in arrays that broadcast."""
    (k0, k1), (c0, c1, c2, c3) = ([numpy.asarray(word, numpy.uint64) for word in words] for words in (key, counter))
    low, high = numpy.uint64(2**32 - 1), numpy.uint64(32)
    for _ in range(7):
        a, b = c0 * numpy.uint64(0xD2511F53), c2 * numpy.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = b >> high ^ c1 ^ k0, b & low, a >> high ^ c3 ^ k1, a & low
        k0, k1 = k0 + numpy.uint64(0x9E3779B9) & low, k1 + numpy.uint64(0xBB67AE85) & low
    return c0, c1, c2, c3


def kept(dropout, seed, offset, b, hq, sq, sk):
    """The dropout mask from its definition in docs/semantics.md: bool [b, hq, sq, sk]."""
    sequence, head, row, column = numpy.ogrid[:b, :hq, :sq, :sk]
    w = philox((seed % 2**32, seed >> 32), (offset % 2**32, offset >> 32, sequence, head))
    x = philox(w[:2], (*w[2:], row, 4 * (column // 64) + column % 8 // 2))
    n = 2 * (column % 64 // 8) + column % 2
    word = numpy.choose(n // 4, x)
    byte = word >> (8 * (n % 4)).astype(numpy.uint64) & numpy.uint64(255)
    return byte <= math.floor((1 - dropout) * 255)


def _scores(q, k, options):
    scale = 1 / math.sqrt(q.shape[-1]) if options.scale is None else options.scale
    k = numpy.repeat(k, q.shape[1] // k.shape[1], axis=1)
    scores = scale * q @ k.swapaxes(-1, -2)
    slope = numpy.full(scores.shape, scale)
    if options.softcap:
        tanh = numpy.tanh(scores / options.softcap)
        scores, slope = options.softcap * tanh, scale * (1 - tanh**2)
    if options.bias is not None:
        scores = scores + options.bias
    return numpy.where(options.visible, scores, -numpy.inf), slope


def _weights(scores, sink):
    largest = scores.max(axis=-1, initial=-numpy.inf)
    if sink is not None:
        largest = numpy.maximum(largest, sink[None, :, None])
    safe = numpy.where(numpy.isfinite(largest), largest, 0)
    powers = numpy.exp(scores - safe[..., None])
    total = powers.sum(axis=-1)
    if sink is not None:
        total = total + numpy.exp(sink[None, :, None] - safe)
    with numpy.errstate(divide="ignore"):
        lse = safe + numpy.log(total)
    return powers / numpy.where(total > 0, total, 1)[..., None], lse


def attention(q, k, v, options):
    q, k, v = (numpy.asarray(x, numpy.float64) for x in (q, k, v))
    weights, lse = _weights(_scores(q, k, options)[0], options.sink)
    if options.kept is not None:
        weights = weights * options.kept / options.keep_probability
    return weights @ numpy.repeat(v, q.shape[1] // v.shape[1], axis=1), lse


def gradients(grad_o, q, k, v, options):
    """grad_q, grad_k, grad_v, the gradient of the scores (that of bias before its sum), grad_sink."""
    grad_o, q, k, v = (numpy.asarray(x, numpy.float64) for x in (grad_o, q, k, v))
    group = q.shape[1] // k.shape[1]
    scores, slope = _scores(q, k, options)
    weights, lse = _weights(scores, options.sink)
    dropped = weights if options.kept is None else weights * options.kept / options.keep_probability
    grad_weights = grad_o @ numpy.repeat(v, group, axis=1).swapaxes(-1, -2)
    if options.kept is not None:
        grad_weights = grad_weights * options.kept / options.keep_probability
    row = (weights * grad_weights).sum(axis=-1)
    grad_scores = weights * (grad_weights - row[..., None])
    chained = grad_scores * slope

    def over_group(x):
        return x.reshape(x.shape[0], k.shape[1], group, *x.shape[2:]).sum(axis=2)

    grad_q = chained @ numpy.repeat(k, group, axis=1)
    grad_k = over_group(chained.swapaxes(-1, -2) @ q)
    grad_v = over_group(dropped.swapaxes(-1, -2) @ grad_o)
    grad_sink = None
    if options.sink is not None:
        grad_sink = -(numpy.exp(options.sink[None, :, None] - lse) * row).sum(axis=(0, 2))
    return grad_q, grad_k, grad_v, grad_scores, grad_sink


def alibi(slopes, b, sq, sk):
    """[b, hq, sq, sk] from slopes [hq] or [b, hq]."""
    distance = numpy.abs(numpy.arange(sq)[:, None] + sk - sq - numpy.arange(sk)[None, :])
    return -numpy.broadcast_to(slopes, (b, slopes.shape[-1]))[..., None, None] * distance
