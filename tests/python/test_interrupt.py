"""Ctrl-C while a kernel is compiled does at once what Python's handler of it does."""

import os
import signal
import subprocess
import sys
import time

import pytest

SETTINGS = {"REGARD_BUILT_IN": "off", "REGARD_CPU_TARGET": "cpu-generic"}


class Compiling:
    """A process that runs code with a compiler that hangs, the first time that it is to compile."""

    def __init__(self, folder, code):
        self.folder, self.temporary = folder, folder / "temporary"
        self.temporary.mkdir()
        compiler = folder / "c++"
        compiler.write_text(
            f'#!/bin/sh\ncase " $* " in *" -v "*) exec c++ "$@";; esac\n'
            f"if [ ! -e {folder}/hung ]; then echo $$ > {folder}/new; mv {folder}/new {folder}/hung; sleep 60; fi\n"
            f'exec c++ "$@"\n'
        )
        compiler.chmod(0o755)
        settings = {
            "REGARD_CXX": str(compiler),
            "REGARD_CACHE_DIR": str(folder / "cache"),
            "TMPDIR": str(self.temporary),
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"import signal, threading, numpy, regard\nq = numpy.ones((1, 8, 1, 16), 'float32')\n{code}",
            ],
            env={**os.environ, **SETTINGS, **settings},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    def interrupted(self, after=0.0):
        """What it printed, and after how many seconds it had ended."""
        try:
            end = time.monotonic() + 60
            while not (self.folder / "hung").exists() and time.monotonic() < end:
                time.sleep(0.01)
            time.sleep(after)
            start = time.monotonic()
            self.process.send_signal(signal.SIGINT)
            out, err = self.process.communicate(timeout=50)
            return out, err, time.monotonic() - start
        finally:
            self.process.kill()

    def compiler_lives(self):
        try:
            with open(f"/proc/{(self.folder / 'hung').read_text().strip()}/stat") as stat:
                return ") Z" not in stat.read()
        except FileNotFoundError:
            return False


CALLS = ["regard.attention(q, q, q)", "regard.plan('fwd fp32 b=1 h=1 s=8 d=16').prepare()"]


@pytest.mark.parametrize("call", CALLS)
def test_a_compile_ends_with_keyboard_interrupt(tmp_path, call):
    compiling = Compiling(tmp_path, f"try: {call}\nexcept KeyboardInterrupt: print('interrupted')")
    out, err, seconds = compiling.interrupted()
    assert (out, err) == ("interrupted\n", "") and seconds < 5
    assert not compiling.compiler_lives() and not list(compiling.temporary.iterdir())


def test_the_next_call_compiles(tmp_path):
    code = """
try: regard.attention(q, q, q)
except KeyboardInterrupt: pass
plan = regard.plan("fwd fp32 b=1 h=1 s=8 d=16")
plan.prepare()
print((regard.attention(q, q, q) == 1).all(), '"tier":"compile"' in plan.json.replace(" ", ""))"""
    assert Compiling(tmp_path, code).interrupted()[:2] == ("True True\n", "")


def test_a_handler_that_raises_nothing_may_make_calls_and_the_call_goes_on(tmp_path):
    code = """
handled = []
def handler(number, frame): handled.append((number, frame is not None, (regard.attention(q, q, q) == 1).all()))
signal.signal(signal.SIGINT, handler)
print((regard.attention(q, q, q) == 1).all(), handled)"""
    out, err, _ = Compiling(tmp_path, code).interrupted()
    assert (out.replace("np.", "").replace("True_", "True"), err) == ("True [(2, True, True)]\n", "")


def test_who_waits_for_the_compile_of_another_thread_is_interrupted(tmp_path):
    code = f"""
import os, pathlib
other = threading.Thread(target=regard.attention, args=(q, q, q), daemon=True)
other.start()
try:
    while not pathlib.Path({str(tmp_path)!r}, "hung").exists(): pass
    regard.attention(q, q, q)
except KeyboardInterrupt: print("interrupted", other.is_alive(), flush=True)
os._exit(0)"""
    out, err, seconds = Compiling(tmp_path, code).interrupted(after=0.3)
    assert (out, err) == ("interrupted True\n", "") and seconds < 5
