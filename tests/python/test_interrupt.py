"""Ctrl-C while a kernel is compiled does at once what Python's handler for it does."""

import os
import signal
import subprocess
import sys
import time

import pytest

SETTINGS = {"REGARD_BUILT_IN": "off", "REGARD_CPU_TARGET": "cpu-generic"}


class Compiling:
    """A process that runs code with a compiler that hangs for `seconds` when it is first asked to compile or to report
    its version."""

    def __init__(self, folder, code, seconds=60, says_what_it_is=True):
        self.folder, self.temporary = folder, folder / "temporary"
        self.temporary.mkdir()
        compiler = folder / "c++"
        compiler.write_text(
            "#!/bin/sh\n"
            + 'case " $* " in *" -v "*) exec c++ "$@";; esac\n' * says_what_it_is
            + f"if [ ! -e {folder}/hung ]; then echo $$ > {folder}/new; mv {folder}/new {folder}/hung; "
            f'sleep {seconds}; fi\nexec c++ "$@"\n'
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
        """Its output, and the seconds until it ended."""
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


@pytest.mark.parametrize("call, compiles", [("regard.attention(q, q, q)", True), ("regard.info()", False)])
def test_who_waits_for_the_compiler_of_another_thread_is_interrupted(tmp_path, call, compiles):
    code = f"""
import os, pathlib
other = threading.Thread(target=lambda: {call}, daemon=True)
other.start()
try:
    while not pathlib.Path({str(tmp_path)!r}, "hung").exists(): pass
    {call}
except KeyboardInterrupt: print("interrupted", other.is_alive(), flush=True)
os._exit(0)"""
    out, err, seconds = Compiling(tmp_path, code, says_what_it_is=compiles).interrupted(after=0.3)
    assert (out, err) == ("interrupted True\n", "") and seconds < 5


# The library as the rest of a program sees it.
LIBRARY = """
import ctypes, pathlib
library = ctypes.CDLL(str(pathlib.Path(regard.__file__).with_name("libregard.so.0")))
"""


def test_a_call_that_is_not_the_packages_leaves_ctrl_c_to_python(tmp_path):
    code = f"""{LIBRARY}
text = ctypes.c_char_p()
try:
    print(library.regard_info(ctypes.byref(text)), end=" ")
    time.sleep(60)
except KeyboardInterrupt: print("interrupted", text.value is not None)"""
    compiling = Compiling(tmp_path, "import time" + code, seconds=1, says_what_it_is=False)
    out, err, seconds = compiling.interrupted()
    assert (out, err) == ("interrupted True\n", "") and seconds < 10


def test_what_another_function_interrupts_is_an_error(tmp_path):
    code = f"""{LIBRARY}
interrupts = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
library.regard_interrupt_if(interrupts)
try: regard.attention(q, q, q)
except regard.RegardError as error: print(type(error).__name__, error)"""
    compiling = Compiling(tmp_path, code)
    try:
        out, err = compiling.process.communicate(timeout=30)
    finally:
        compiling.process.kill()
    assert (out, err) == ("RegardError interrupted while a kernel was being compiled\n", "")
