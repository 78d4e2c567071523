"""Runs the command as a user does: a process with arguments, an environment, an exit code and two streams."""

import json
import os
import subprocess
import types

import pytest
from places import BUILD

COMMAND = os.environ.get("REGARD_BIN", str(BUILD / "regard"))

# A problem whose kernels are compiled into the library, small enough to take no time.
FORWARD = "fwd fp32 b=2 hq=4 hk=2 s=32 d=64 mask=causal lse"
BACKWARD = "bwd fp32 b=2 hq=4 hk=2 s=32 d=64 mask=causal"


def environment(**settings):
    """The environment of the tests, with these settings and no others."""
    return {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")} | settings


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def regard_words(cache, tmp_path):
    """Like `regard`, but takes words that are passed as they are, whatever they contain."""

    def run(*words, **settings):
        done = subprocess.run(
            [COMMAND, *words],
            env=environment(REGARD_CACHE_DIR=str(cache)) | settings,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=120,
        )
        return types.SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr)

    return run


@pytest.fixture
def regard(regard_words):
    """regard("run", FORWARD, ...) runs the command in an empty folder and returns its code, out and err."""

    def run(*arguments, **settings):
        words = [
            str(word)
            for argument in arguments
            for word in (argument.split() if isinstance(argument, str) else [argument])
        ]
        return regard_words(*words, **settings)

    return run


@pytest.fixture
def regard_json(regard):
    """Returns the parsed --json output of a call that must succeed."""

    def run(*arguments, **settings):
        done = regard(*arguments, "--json", **settings)
        assert done.code == 0, done.err
        return json.loads(done.out)

    return run


@pytest.fixture
def refused(regard):
    """Returns the single sentence of a call that must fail with `code`."""

    def run(*arguments, code=2, **settings):
        done = regard(*arguments, **settings)
        assert done.code == code, (done.code, done.out, done.err)
        assert done.out == ""
        assert done.err.startswith("regard: ") and done.err.count("\n") == 1, done.err
        return done.err

    return run
