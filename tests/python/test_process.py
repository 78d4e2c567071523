"""Processes and threads: imports are fast and pull nothing else in; threads and forks work."""

import ast
import ctypes
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading

import numpy
import pytest

import regard


def run(code, **settings):
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **settings}, check=True, capture_output=True, text=True
    ).stdout


def test_import_brings_no_framework():
    code = "import sys, regard; print([name for name in ('torch', 'jax', 'ml_dtypes') if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_a_path_in_an_error_need_not_be_utf8():
    code = (
        "import regard\n"
        "try: regard.plan('fwd fp32 s=8 d=8')\n"
        "except regard.InvalidError as error: print(ascii(str(error)))"
    )
    assert "cannot read '/K\\\\xf6ln/" in run(code, REGARD_DATA_DIR=b"/K\xf6ln".decode(errors="surrogateescape"))


def test_other_threads_run_while_a_compiler_is_asked_its_name(tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text(
        f"""#!/bin/sh
cd {tmp_path} && touch asked
for i in $(seq 100); do [ -e go ] && exec c++ "$@"; sleep 0.1; done
touch locked
"""
    )
    compiler.chmod(0o755)
    code = f"""
import pathlib, threading, time, regard
folder = pathlib.Path({str(tmp_path)!r})
asking = threading.Thread(target=regard.info)
asking.start()
while asking.is_alive() and not (folder / "asked").exists(): time.sleep(0.01)
(folder / "go").touch()
asking.join()
print((folder / "asked").exists(), (folder / "locked").exists())
"""
    assert run(code, REGARD_CXX=str(compiler)).split() == ["True", "False"]


def test_import_time(record_property, capsys):
    code = "import time, numpy; t = time.perf_counter(); import regard; print(time.perf_counter() - t)"
    seconds = statistics.median(float(run(code)) for _ in range(3))
    record_property("import_ms", seconds * 1e3)
    with capsys.disabled():
        print(f"\nimport regard: {seconds * 1e3:.1f} ms beyond NumPy's own time (budget 100 ms)")


def attend():
    random = numpy.random.default_rng(0)
    q = random.standard_normal((2, 128, 4, 64)).astype("float32")
    return regard.attention(q, q, q, causal=True)


def test_threads_share_plans():
    expected = attend()
    wrong = []

    def work():
        for _ in range(20):
            if not (attend() == expected).all():
                wrong.append(threading.get_ident())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def child(queue):
    queue.put(attend())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_works_after_the_parent_ran():
    expected = attend()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(queue,))
    process.start()
    result = queue.get(timeout=60)
    process.join(timeout=60)
    assert process.exitcode == 0
    assert (result == expected).all()
    assert (attend() == expected).all()


DAEMONS = """
import sys, threading, time, numpy, regard
sys.setswitchinterval(1e-5)
def call():
    for size in range(1, 10**9):
        q = numpy.ones((1, size % 300 + 1, 1, 64), "float32")
        regard.attention(q, q, q)
        regard.explain("fwd fp32 s=8 d=64")
for _ in range(8):
    threading.Thread(target=call, daemon=True).start()
time.sleep(0.2)
"""


@pytest.mark.parametrize("attempt", range(3))
def test_daemon_threads_in_calls_do_not_disturb_the_end_of_python(attempt):
    run(DAEMONS)


SUBINTERPRETERS = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
kinds = ("legacy", "isolated") if sys.version_info >= (3, 13) else (False, True)
{before}
for kind in kinds:
    other = interpreters.create(kind) if sys.version_info >= (3, 13) else interpreters.create(isolated=kind)
    for _ in range(2):
        interpreters.run_string(other, '''
try:
    import regard
except ImportError as error:
    print(error, flush=True)
''')
    interpreters.destroy(other)
import numpy, regard
q = numpy.ones((1, 8, 1, 64), "float32")
print(int(regard.attention(q, q, q).sum()), flush=True)
"""


@pytest.mark.parametrize("before", ["", "import regard"])
def test_a_subinterpreter_is_refused_and_the_main_one_goes_on(before):
    *refusals, sum_of_ones = run(SUBINTERPRETERS.format(before=before)).splitlines()
    assert sum_of_ones == "512" and len(refusals) == 4
    assert all("subinterpreter" in refusal for refusal in refusals)


def test_other_threads_run_while_a_kernel_does():
    """The interpreter lock is released: a Python thread makes progress during one long call."""
    q = numpy.zeros((1, 4096, 8, 64), "float32")
    o = numpy.empty_like(q)
    plan = regard.plan("fwd fp32 b=1 h=8 s=4096 d=64", threads=1)
    plan.prepare()
    running, ticks = threading.Event(), [0]

    def count():
        while not running.is_set():
            ticks[0] += 1
            running.wait(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        before = ticks[0]
        plan.run(q=q, k=q, v=q, o=o)
        during = ticks[0] - before
    finally:
        running.set()
        counter.join()
    assert during >= 2


MAPPED = """
import regard
regard.plan("fwd fp32 b=1 h=1 s=128 d=24 mask=causal").prepare()
print([line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if " r-xp " in line and "cpu_" in line])
"""


def test_profilers_see_what_a_compiled_kernel_is_and_find_its_symbols_where_asked(tmp_path):
    settings, name = {"REGARD_CACHE_DIR": str(tmp_path / "cache")}, "regard_cpu_forward_fwd_fp32_d_24_mask_window_"
    (in_memory,) = ast.literal_eval(run(MAPPED, **settings))
    assert in_memory.startswith(f"/memfd:{name}")
    for _ in range(2):
        (file,) = ast.literal_eval(run(MAPPED, REGARD_SYMBOL_DIR=str(tmp_path / "symbols"), **settings))
        assert [path.name for path in (tmp_path / "symbols").iterdir()] == [os.path.basename(file)]
    symbol = os.path.basename(file).rpartition("-")[0]
    assert symbol.startswith(name) and hasattr(ctypes.CDLL(file), symbol)
    (tmp_path / "file").touch()
    assert ast.literal_eval(run(MAPPED, REGARD_SYMBOL_DIR=str(tmp_path / "file"), **settings)) == [in_memory]


# Needs a kernel that is not compiled into the library: a head dimension that no model uses.
ODD_CALL = """
import numpy, regard
q = numpy.ones((1, 8, 1, 24), "float32")
try:
    print(regard.attention(q, q, q, causal=True, softcap=3.0).sum())
except regard.RegardError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"REGARD_JIT": "off", "REGARD_STRICT": "1"}, ["NoKernelError", "REGARD_JIT=off"]),
        ({"REGARD_CXX": "/dev/null/c++", "REGARD_STRICT": "1"}, ["NoKernelError", "/dev/null/c++"]),
        ({"REGARD_THREADS": "many"}, ["InvalidError", "REGARD_THREADS='many'"]),
        ({"REGARD_JIT": "off"}, ["192"]),  # the generic kernel is always available
        ({"REGARD_CACHE_DIR": "/proc/nothing"}, ["192"]),  # compiled, used and not kept
        ({"REGARD_CPU_TARGET": "cpu-avx2", "REGARD_THREADS": "1"}, ["192"]),
    ],
)
def test_settings_act_on_calls(settings, words, tmp_path):
    shown = run(ODD_CALL, **{"REGARD_CACHE_DIR": str(tmp_path / "cache"), **settings})
    for word in words:
        assert word in shown
