"""Failures, threads, forks, the end of processes and libraries, and the messages meanwhile."""

import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys
import time

import pytest
from places import BUILD, ROOT
from torture import LIBRARY, OTHER, PROBLEM, each_compiler, finish, wait_until, with_nvrtc


def test_a_failing_compile_says_everything_once_per_process(place):
    done = place.run("twice", FAILS="1", REGARD_STRICT="1")
    first, second = done.lines
    assert first["error"] == second["error"]
    assert place.compiles == 1  # not tried again in this process
    error = first["error"]
    assert "failed (exit code 3)" in error
    assert error.endswith("the compiler said:\nkernel.cpp:1: error: no\n")
    folder, command, source = re.search(
        r"command, to be run in '(.*?)': (.*?); the source is kept in '(.*?)'", error
    ).groups()
    assert "-std=c++20 -O2" in command and place.environment["REGARD_CXX"] in command.replace("'", "")
    assert pathlib.Path(source).parent == pathlib.Path(folder)
    assert "extern" in pathlib.Path(source).read_text()
    assert done.counters["failed"] >= 1
    # The printed command works: without the cause of the failure it compiles the source that was kept.
    subprocess.run(command, shell=True, cwd=folder, check=True, env=place.environment)
    assert any(path.suffix == ".so" for path in pathlib.Path(folder).iterdir())

    place.forget_compiles()
    again = place.run("run", FAILS="1", REGARD_STRICT="1")
    assert again.error and place.compiles == 1  # tried again in the next process
    good = place.run()
    assert (good.tier, place.compiles) == ("compile", 2)
    assert len(place.entries) == 1
    place.verb("gc")
    assert os.path.exists(source)  # kept for a week


def test_a_failing_compile_is_answered_by_the_generic_kernel(place):
    done = place.run("run", FAILS="1")
    assert (done.code, done.tier, done.counters["fallbacks"]) == (0, "built-in", 1)
    assert "exit code 3" in done.fallback


def test_when_the_fallback_fails_too_what_failed_first_is_said_first(place):
    expected = place.run("run", FAILS="1", REGARD_STRICT="1").error
    error = place.run("run", FAILS="1", REGARD_BUILT_IN="off").error
    first, second = error.split("the fallback cannot answer either: ")
    compiled = r"compiling (\w+) failed"
    assert re.findall(compiled, first) == re.findall(compiled, expected) != re.findall(compiled, second)

    error = place.run("run", REGARD_JIT="off", REGARD_BUILT_IN="off").error
    first, second = error.split("; the fallback cannot answer either: ")
    assert "generic" not in first and "generic_forward" in second


@pytest.mark.parametrize("closed", [(2,), (0, 2), (1,), (0, 1, 2)], ids=str)
def test_lines_for_a_closed_stderr_are_in_no_file_of_ours(place, right, closed):
    """A file that is opened while a standard stream is closed gets its number."""

    def close_them():
        for stream in closed:
            os.close(stream)

    for tier in ("compile", "cache"):
        process = place.start("threads", REGARD_LOG="all", PAUSE="0.5", preexec_fn=close_them)
        if tier == "compile":
            place.wait_for_compile()
            assert not {str(stream) for stream in closed} & {*os.listdir(f"/proc/{process.pid}/fd")}
        done = finish(process)
        if 1 not in closed:
            assert (done.bits, done.tier) == (right, tier)
        assert place.compiles == 1
        assert [entry for entry in place.verb("verify") if "problem" in entry] == []
        assert place.files() == [place.entry.name]
        assert place.leftovers() == []


def test_threads_that_race_compile_once(place, right):
    done = place.run("threads", PAUSE="0.2")
    assert (done.bits, done.tier, place.compiles) == (right, "compile", 1)
    assert done.counters["compiled"] == 1
    again = place.run("threads")
    assert (again.bits, again.tier, again.counters["cached"]) == (right, "cache", 1)


@each_compiler
def test_a_child_forked_during_a_compile_gets_the_kernel_too(place, right):
    """The child waits for its parent as for any other process."""
    done = place.run("fork", PAUSE="0.5")
    assert (done.code, done.err) == (0, "")
    assert [line["bits"] for line in done.lines] == [right] * 2
    assert len({line["pid"] for line in done.lines}) == 2
    assert sorted(line["plan"]["stages"][0]["tier"] for line in done.lines) == ["cache", "compile"]
    assert place.compiles == 1
    assert place.files() == [place.entry.name]


@with_nvrtc
def test_a_child_forked_while_nvrtc_compiles_makes_another_kernel(place, right):
    """It does not wait forever for a lock inside NVRTC, because the fork waits until no thread is in there."""
    other = PROBLEM.replace("d=23", "d=31")
    for delay in ("0", "0.3"):
        done = place.run("other", PROBLEM, other, DELAY=delay, REGARD_CACHE_DIR=place.folder / f"kernels {delay}")
        assert (done.code, done.err) == (0, "")
        assert [line["bits"] for line in done.lines] == [right] * 2, [line["error"] for line in done.lines]
        assert len({line["pid"] for line in done.lines}) == 2
    place.cache = place.folder / "kernels 0"
    assert place.files() == [entry.name for entry in place.entries]
    assert len(place.entries) == 2


def test_exit_during_a_compile_is_quick_and_harmless(place, right):
    for _ in range(10):
        place.forget_compiles()
        start = time.monotonic()
        done = place.run("exit", PAUSE="600")
        assert (done.code, done.err) == (0, "")
        assert time.monotonic() - start < 3
        wait_until(lambda: not place.living_compilers(), 1)
    done = place.run()
    assert (done.bits, done.tier) == (right, "compile")
    time.sleep(2.1)
    place.verb("gc")
    assert place.leftovers() == []


@with_nvrtc
def test_exit_while_nvrtc_compiles_is_harmless(place, right):
    """NVRTC's objects are destroyed at exit, so the compile has to end first."""
    for delay in (0, 0.03, 0.1, 0.2, 0.3, 0.4, 0.6):
        place.forget_compiles()
        start = time.monotonic()
        done = place.run("exit", DELAY=delay)
        assert (done.code, done.err) == (0, ""), delay
        assert time.monotonic() - start < 10
        for entry in place.entries:  # a compile may have finished just before
            entry.unlink()
    done = place.run()
    assert (done.bits, done.tier) == (right, "compile")
    assert place.leftovers() == []


@with_nvrtc
def test_python_ends_while_nvrtc_compiles(place):
    """The compiling thread returns to an interpreter that has ended."""
    if not any((BUILD / "python").glob("regard/*.so")):
        pytest.skip("the Python extension is not built here")
    code = (
        "import os, regard, sys, threading, time\n"
        f"make = lambda: regard.plan({PROBLEM!r}, target='sm_80').prepare()\n"
        "threading.Thread(target=make, daemon=True).start()\n"
        "while os.path.getsize(os.environ['COMPILES']) == 0: time.sleep(0.001)\n"
        "time.sleep(float(sys.argv[1]))"
    )
    environment = place.environment | {"PYTHONPATH": str(BUILD / "python")}
    for delay in (0, 0.1, 0.25, 0.4):
        place.forget_compiles()
        done = subprocess.run(
            [sys.executable, "-c", code, str(delay)], env=environment, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, ""), delay


def test_exit_while_threads_load_is_harmless(place, right):
    place.run()
    for _ in range(20):
        done = place.run("threads")
        assert (done.code, done.bits) == (0, right)


@pytest.mark.parametrize("how", ["alarm", "reaps"])
def test_what_a_program_does_with_its_signals_is_its_own_affair(place, right, how):
    done = place.run(how)
    assert (done.code, done.err) == (0, "")
    assert (done.bits, done.tier, place.compiles) == (right, "compile", 1)
    assert place.leftovers() == []


def test_calls_in_handlers_and_destructors_at_the_end_of_a_program(place):
    """oneTBB has been destroyed by then."""
    done = place.run("ends", PROBLEM.replace("h=1", "h=8"), REGARD_THREADS="2")
    assert (done.code, done.err) == (0, "")
    assert len({line["bits"] for line in done.lines}) == 1 and len(done.lines) == 3


def test_the_library_may_be_closed_and_opened_again(place, right):
    done = place.run("reopen")
    assert (done.code, done.err) == (0, "")
    assert [line["bits"] for line in done.lines] == [right] * 4
    assert place.compiles == 1


def test_two_copies_in_one_process_load_kernels_of_their_own(place, right):
    """As when a program and one of its packages each ship a copy of the library."""
    copy = place.folder / "copy.so"
    shutil.copy(LIBRARY, copy)
    first, second = place.run("copies", PROBLEM, OTHER, COPY=copy).lines
    assert (first["bits"], second["bits"]) == (right, place.run("run", OTHER).bits)
    assert [stage["tier"] for line in (first, second) for stage in line["plan"]["stages"]] == ["compile"] * 2


# ---- messages --------------------------------------------------------------------------------------------------


def watched(place, **settings):
    """The output of a run at a terminal."""
    ours, theirs = pty.openpty()
    environment = place.environment | settings
    process = subprocess.Popen(
        [BUILD / "regard", "run", PROBLEM], env=environment, stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    text = b""
    try:
        while more := os.read(ours, 4096):
            text += more
    except OSError:  # the terminal's other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return [line for line in text.decode().splitlines() if line.startswith("regard compile:")]


def expect_start_and_end(lines):
    start, end = lines
    assert re.fullmatch(r"regard compile: compiling regard_\w+ with .*compiler\.sh", start)
    assert re.fullmatch(r"regard compile: regard_\w+ compiled after [\d.]+ s", end)


def test_a_long_compile_tells_a_person_who_watches(place):
    expect_start_and_end(watched(place, PAUSE="0.6"))
    assert watched(place) == []  # from the cache


def test_a_long_compile_tells_who_asked_and_nobody_else(place):
    asked = place.run("run", PAUSE="0.6", REGARD_LOG="compile")
    expect_start_and_end([line for line in asked.warnings if " in 0." not in line])
    place.entry.unlink()
    assert place.run("run", PAUSE="0.6").err == ""


# ---- counters through every API --------------------------------------------------------------------------------

TIERS = ("built_in", "cached", "compiled")


def expect_counters(place, count):
    """count(settings) returns the counters of a process that ran PROBLEM once."""
    for tier in ("compiled", "cached"):
        counters = count({})
        assert {name: counters[name] for name in TIERS} == {name: int(name == tier) for name in TIERS}
    counters = count({"REGARD_JIT": "off", "REGARD_CACHE": "off"})
    assert (counters["built_in"], counters["cached"], counters["failed"], counters["fallbacks"]) == (1, 0, 1, 1)


def test_counters_in_c(place):
    expect_counters(place, lambda settings: place.run("run", **settings).counters)


def test_counters_in_the_command(place):
    def count(settings):
        done = place.cli("run", PROBLEM, "--json", **settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["counters"]

    expect_counters(place, count)
    assert set(TIERS) <= set(json.loads(place.cli("info", "--json").stdout)["counters"])


def test_counters_in_cpp(place):
    source, program = place.folder / "count.cpp", place.folder / "count"
    source.write_text(
        "#include <cstdio>\n#include <regard/regard.hpp>\nint main(int, char** words) {\n"
        "  regard::Plan plan{regard::Problem(words[1])};\n  plan.prepare();\n"
        "  std::puts(regard::info().c_str());\n}\n"
    )
    subprocess.run(
        ["c++", "-std=c++20", f"-I{ROOT / 'include'}", source, "-o", program, f"-L{BUILD}", "-lregard"], check=True
    )
    environment = place.environment | {"LD_LIBRARY_PATH": str(BUILD)}

    def count(settings):
        done = subprocess.run(
            [program, PROBLEM], env=environment | settings, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)["counters"]

    expect_counters(place, count)


def test_counters_in_python(place):
    if not any((BUILD / "python").glob("regard/*.so")):
        pytest.skip("the Python extension is not built here")
    code = f"import json, regard; regard.plan({PROBLEM!r}).prepare(); print(json.dumps(regard.info()))"
    environment = place.environment | {"PYTHONPATH": str(BUILD / "python")}

    def count(settings):
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment | settings, capture_output=True, text=True, check=True
        )
        return json.loads(done.stdout)["counters"]

    expect_counters(place, count)
