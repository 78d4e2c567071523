"""Tables of KV caches on CPUs: regard.vllm beside vLLM's own attention, and latent attention beside a plain read."""

from __future__ import annotations

from bench.shared.markdown import Line, geometric_mean, paragraph, provenance, table


def vllm(lines: list[Line]) -> list[str]:
    ratios = [line["over_vllm"] for line in lines]
    text = (
        f"{provenance(lines)} 32/8 heads of 128 in bf16, pages of 128; times of a layer, whose cache is its own. "
        f"Geometric mean of the ratios {geometric_mean(ratios):.2f}."
    )
    rows = [
        [line["cell"], f"{line['ms']['regard']:.2f}", f"{line['ms']['vllm']:.2f}", f"{line['over_vllm']:.2f}"]
        for line in lines
    ]
    return [*paragraph(text), *table(["batch and keys", "Regard, ms", "vLLM, ms", "vLLM ÷ Regard"], rows)]


def latent(lines: list[Line]) -> list[str]:
    text = f"{provenance(lines)} 16 heads of 576/512 in bf16, dense and in pages of 64."
    rows = []
    for line in lines:
        for name, ratio in line["over_read"].items():
            ms = f"{line['ms'][name]:.2f}"
            rows.append([line["cell"], name, ms, f"{ratio:.2f}", f"{line['of_product'][name]:.2f}"])
    return [*paragraph(text), *table(["batch and keys", "cache", "ms", "÷ plain read", "of the product's rate"], rows)]
