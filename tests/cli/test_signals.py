"""A signal during a compile ends the command and its compiler at once, and leaves nothing behind."""

import resource
import signal
import subprocess
import time

import pytest

from conftest import COMMAND, environment

RUN = ["run", "fwd fp32 s=8 d=16", "--target=cpu-generic"]
PREBUILD = ["prebuild", "--target=cpu-generic", "--profile=default", "--threads=3"]


def alive(process):
    try:
        with open(f"/proc/{process}/stat") as stat:
            return ") Z" not in stat.read()
    except FileNotFoundError:
        return False


def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


@pytest.mark.parametrize("command", [RUN, PREBUILD], ids=["run", "prebuild"])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_ends_a_compile(tmp_path, command, number):
    compiler, mark, temporary = tmp_path / "c++", tmp_path / "compiles", tmp_path / "temporary"
    temporary.mkdir()
    compiler.write_text(
        f"#!/bin/sh\nif [ $1 = -v ]; then echo 'fake version 1.0 (build 7)'; exit; fi\n"
        f"trap '' HUP INT QUIT TERM\necho $$ > {mark}.new; mv {mark}.new {mark}; sleep 60\n"
    )
    compiler.chmod(0o755)
    settings = {"REGARD_CXX": str(compiler), "REGARD_BUILT_IN": "off", "REGARD_CACHE_DIR": str(tmp_path / "cache")}

    def as_from_a_shell():  # the test runner may ignore these signals
        signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    process = subprocess.Popen(
        [COMMAND, *command], env=environment(TMPDIR=str(temporary), **settings), preexec_fn=as_from_a_shell
    )
    try:
        assert until(mark.exists, 30)
        assert list(temporary.iterdir())
        process.send_signal(number)
        assert process.wait(timeout=5) == -number
    finally:
        process.kill()
    assert list(temporary.iterdir()) == []
    assert until(lambda: not alive(int(mark.read_text())), 5)
    assert not list((tmp_path / "cache").glob("*.lock"))
