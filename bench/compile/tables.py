"""Tables of compiles: CUDA kernels against their goals, CPU kernels compared with the same kernels from the cache, and
ahead-of-time builds."""

from __future__ import annotations

from statistics import median

from bench.shared.markdown import MISSED, Line, paragraph, table

MEDIAN_SECONDS, WORST_SECONDS, PEAK_MB = 0.6, 0.9, 150
BACKWARD_MEDIAN_SECONDS, BACKWARD_WORST_SECONDS = 1.5, 2.0  # for all stages of a problem
HIP_MEDIAN_SECONDS, HIP_WORST_SECONDS = 0.7, 3.0  # of CPU time
BUILD_SECONDS, BUILD_MB, BUNDLE_KB, OPEN_MS = (
    1.0,
    1000,
    150,
    5.0,
)  # per kernel, of all processes, per kernel, for 1,000 kernels
STEPS = ("source", "compiler", "key", "entry", "load")  # from the cache to a kernel that can run


def against(goal: float, figure: float, digits: int) -> str:
    return f"{figure:.{digits}f}{' ' + MISSED if figure > goal else ''}"


def _cuda_row(name: str, lines: list[Line]) -> list[str]:
    seconds = [line["seconds"] for line in lines]
    of_problems = "problem" in lines[0]
    middle, worst = (
        (BACKWARD_MEDIAN_SECONDS, BACKWARD_WORST_SECONDS) if of_problems else (MEDIAN_SECONDS, WORST_SECONDS)
    )
    return [
        f"{name}, all stages" if of_problems else name,
        str(len(lines)),
        against(middle, median(seconds), 2),
        against(worst, max(seconds), 2),
        against(PEAK_MB, max(line["peak_bytes"] for line in lines) / 1e6, 0),
    ]


def _origin(line: Line) -> str:
    return f"{line['machine']}, one core, {line['date']}, commit {line['commit']}"


def cuda(lines: list[Line]) -> list[str]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        words = line["kernel"].split()
        groups.setdefault(" ".join(word for word in words[:3] if "=" not in word), []).append(line)
    of_kernels = [line for line in lines if "problem" not in line]
    rows = [_cuda_row(name, groups[name]) for name in sorted(groups)] + [
        _cuda_row("all kernels of forward", of_kernels)
    ]
    goals = f"median {MEDIAN_SECONDS} s, worst {WORST_SECONDS} s, {PEAK_MB} MB; of all stages of a backward problem "
    goals += f"{BACKWARD_MEDIAN_SECONDS} s and {BACKWARD_WORST_SECONDS} s"
    return [
        *paragraph(f"{_origin(lines[0])}; goals: {goals}."),
        *table(["kernels", "sampled", "median s", "worst s", "peak MB"], rows),
    ]


def hip(lines: list[Line]) -> list[str]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line["cell"], []).append(line)
    rows = []
    for name, group in [*groups.items(), ("all of them", lines)]:
        seconds = [line["cpu_seconds"] for line in group]
        middle, worst = against(HIP_MEDIAN_SECONDS, median(seconds), 2), against(HIP_WORST_SECONDS, max(seconds), 2)
        rows.append([name, str(len(group)), middle, worst, f"{max(line['peak_bytes'] for line in group) / 1e6:.0f}"])
    goals = f"median {HIP_MEDIAN_SECONDS} CPU s, worst {HIP_WORST_SECONDS:.0f} CPU s"
    return [
        *paragraph(f"{_origin(lines[0])}; goals: {goals}."),
        *table(["target", "sampled", "median CPU s", "worst CPU s", "peak MB"], rows),
    ]


def cpu(lines: list[Line]) -> list[str]:
    rows = []
    for line in lines:
        key, _, problem = line["kernel"].partition(" | ")
        steps = [f"{line[step]:.2f}" for step in ("cached_ms", *STEPS)]
        rows.append([" ".join(key.split()[:2]), problem, line["compiled_by"], f"{line['compile_s']:.2f}", *steps])
    text = f"{_origin(lines[0])}. Medians of {lines[0]['rounds']} rounds."
    head = ["kernel", "for", "by", "compile, s", "from the cache, ms", *(f"{step}, ms" for step in STEPS)]
    return [*paragraph(text), *table(head, rows)]


def build(lines: list[Line]) -> list[str]:
    by_cell = {line["cell"]: line for line in lines}
    whole, use = by_cell.pop("all"), by_cell.pop("use")
    rows = [
        [
            target,
            str(line["kernels"]),
            f"{line['compile_seconds'] / line['kernels']:.2f}",
            f"{line['slowest_seconds']:.2f}",
            f"{line['bytes'] / line['kernels'] / 1e3:.0f}",
            against(BUNDLE_KB, line["packed_bytes"] / line["kernels"] / 1e3, 0),
        ]
        for target, line in sorted(by_cell.items())
    ]
    a_kernel = against(BUILD_SECONDS, whole["cpu_seconds"] / whole["kernels"], 2)
    head = ["target", "kernels", "s a kernel", "slowest s", "KB a kernel", "KB in the bundle"]
    return [
        *paragraph(
            f"{whole['machine']}, {whole['date']}, commit {whole['commit']}: the manifest "
            f"`bench/compile/transformer_engine.toml`, {whole['jobs']} jobs. {whole['kernels']} kernels in "
            f"{whole['seconds']:.0f} s, {a_kernel} CPU seconds a kernel, at most "
            f"{against(BUILD_MB, whole['peak_bytes'] / 1e6, 0)} MB of all processes; a bundle of "
            f"{whole['bundle_bytes'] / 1e6:.1f} MB. Goals: {BUILD_SECONDS:.0f} CPU second a kernel, {BUILD_MB} MB, "
            f"{BUNDLE_KB} KB a kernel in the bundle. Seconds of single kernels are wall time beside each other."
        ),
        *table(head, rows),
        *paragraph(
            f"With {use['kernels']} kernels in it ({use['bundle_bytes'] / 1e6:.1f} MB) a bundle opens in "
            f"{against(OPEN_MS, use['open_ms'], 2)} ms (goal: {OPEN_MS:.0f}), for which "
            f"{use['read_bytes'] / 1e3:.0f} KB are read. A first call has its kernel after "
            f"{use['first_kernel_ms']['bundle']:.2f} ms, and after {use['first_kernel_ms']['cache']:.2f} ms from the "
            f"cache."
        ),
    ]
