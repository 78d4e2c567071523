"""Processes that use one cache, a compiler that logs when it runs, and ways to break them."""

import contextlib
import ctypes
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest
from places import BUILD, ROOT

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = BUILD / "libregard.so"
COMMAND = BUILD / "regard"
CHILD = BUILD / "tests" / "torture_child"
SHIM = BUILD / "tests" / "libtorture_shim.so"

PROBLEM = "fwd fp32 h=1 s=40 d=23 mask=causal"  # not compiled into the library: one stage, one kernel
OTHER = "fwd fp32 h=1 s=40 d=31 mask=causal"
ROOT_USER = os.geteuid() == 0
libc = ctypes.CDLL(None, use_errno=True)


def real_nvrtc():
    """The folder of the real NVRTC, as set or in .venv; None if there is none."""
    if setting := os.environ.get("REGARD_NVRTC"):
        return pathlib.Path(setting) if os.path.isdir(setting) else pathlib.Path(setting).parent
    return next(ROOT.glob(".venv/lib/python*/site-packages/nvidia/cu13/lib"), None)


NVRTC = real_nvrtc()


# For tests that hold with either compiler.
each_compiler = pytest.mark.parametrize("place", ["c++", "nvrtc"], indirect=True)
with_nvrtc = pytest.mark.parametrize("place", ["nvrtc"], indirect=True)


class Place:
    """A cache folder, a TMPDIR and a log of compiles, and the processes that use them."""

    def __init__(self, folder, store, nvrtc=None):
        self.folder = folder
        self.nvrtc = nvrtc
        self.cache = folder / "kernels"
        self.temporary = folder / "temporary files"
        self.temporary.mkdir(parents=True)
        self.log = folder / "compiles"
        self.log.touch()
        others = ("REGARD_", "XDG_RUNTIME_DIR")  # so that everything they share is in the cache folder
        kept = {name: value for name, value in os.environ.items() if not name.startswith(others)}
        self.environment = kept | {
            "REGARD_CACHE_DIR": str(self.cache),
            "REGARD_CXX": str(HERE / "compiler.sh"),
            "TMPDIR": str(self.temporary),
            "COMPILES": str(self.log),
            "STORE": str(store),
        }
        if nvrtc:
            self.environment |= {"REGARD_NVRTC": str(nvrtc), "GPU_TARGET": "sm_80"}

    def start(self, how, *problems, library=LIBRARY, preexec_fn=None, **settings):
        environment = {n: str(v) for n, v in (self.environment | settings).items() if v is not None}
        if "KILL_AT" in settings or "NO_LOCKS" in settings:
            environment["LD_PRELOAD"] = str(SHIM)
        return subprocess.Popen(
            [CHILD, how, library, *(problems or [PROBLEM])],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            preexec_fn=preexec_fn,
        )

    def run(self, how="run", *problems, **settings):
        return finish(self.start(how, *problems, **settings))

    def cli(self, *words, preexec_fn=None, **settings):
        return subprocess.run(
            [COMMAND, *words],
            env=self.environment | settings,
            capture_output=True,
            text=True,
            timeout=60,
            preexec_fn=preexec_fn,
        )

    def verb(self, verb):
        done = self.cli("cache", verb, "--json")
        assert done.returncode in (0, 1), done.stderr
        return json.loads(done.stdout)

    @property
    def compiles(self):
        return self.log.read_text().count("start")

    def living_compilers(self):
        """Their process ids, and those of the processes that they have started."""
        groups = {int(line.split()[1]) for line in self.log.read_text().splitlines() if line.startswith("start")}
        living = []
        for process in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                _, _, after = (process / "stat").read_text().rpartition(") ")
                state, _, group = after.split()[:3]
                if int(group) in groups and state != "Z":
                    living.append(int(process.name))
        return living

    def forget_compiles(self):
        self.log.write_text("")

    def wait_for_compile(self):
        wait_until(lambda: self.compiles > 0)

    @property
    def entries(self):
        """The entries of kernels; NVRTC's answers about itself are entries, too."""
        return sorted(
            path for path in self.cache.glob("*.regard") if not self.nvrtc or b'"kernel"' in path.read_bytes()
        )

    @property
    def entry(self):
        (one,) = self.entries
        return one

    def files(self):
        compilers = {*self.cache.glob("*.regard")} - {*self.entries}
        return sorted(path.name for path in self.cache.iterdir() if path not in compilers)

    def leftovers(self):
        return [path.name for path in self.temporary.iterdir()]


class Done:
    """What a finished process printed; `tier`, `bits` and so on are those of its last line."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.lines = [json.loads(line) for line in out.splitlines()]
        last = self.lines[-1] if self.lines else {}
        self.bits, self.error = last.get("bits"), last.get("error")
        self.counters = (last.get("info") or {}).get("counters", {})
        self.plan = last.get("plan")
        self.tiers = [stage.get("tier") for stage in (self.plan or {}).get("stages", [])]
        self.tier = self.tiers[0] if len(self.tiers) == 1 else self.tiers
        self.fallback = (self.plan or {}).get("fallback_reason")

    @property
    def warnings(self):
        return [line for line in self.err.splitlines() if line.startswith("regard")]


def finish(process, seconds=60):
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"hangs; so far it said {out!r} {err!r}")
    return Done(process.returncode, out, err)


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.002)


def sealed(body):
    """The bytes of an entry, with a correct checksum appended."""
    return body + hashlib.sha256(body).digest()


def whole(data):
    """Whether these bytes are a complete entry."""
    return len(data) > 96 and data[:8] == b"REGARD\x1a\n" and hashlib.sha256(data[:-32]).digest() == data[-32:]


@contextlib.contextmanager
def killed_after(process):
    try:
        yield process
    finally:
        for number in (signal.SIGCONT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        process.communicate()
