"""Completion at a terminal, where bash splits words at = and :."""

import os
import pty
import select
import subprocess
import time

import pytest

from conftest import COMMAND

END = b"<end>"


class Terminal:
    """An interactive bash that has sourced the completion script."""

    def __init__(self, script):
        mine, theirs = pty.openpty()
        environment = os.environ | {"PS1": "", "TERM": "dumb", "INPUTRC": "/dev/null"}
        command = ["bash", "--norc", "--noprofile", "-i"]
        self.shell = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.file = mine
        self.line("bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'")
        self.line(f"source {script}")

    def line(self, text):
        """Sends the line and returns the output up to a mark that the line itself does not contain."""
        os.write(self.file, text.encode() + b"\necho '<e''nd>'\n")
        shown = b""
        until = time.monotonic() + 60
        while END not in shown and time.monotonic() < until:
            if select.select([self.file], [], [], 1)[0]:
                shown += os.read(self.file, 65536)
        return shown.decode()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    script = tmp_path_factory.mktemp("completion") / "regard.bash"
    script.write_bytes(subprocess.run([COMMAND, "completion", "bash"], capture_output=True, check=True).stdout)
    opened = Terminal(script)
    opened.line("regard() { printf '(%s)' \"$@\"; }")  # shows its words
    yield opened
    opened.shell.kill()
    opened.shell.wait()
    os.close(opened.file)


@pytest.mark.parametrize(
    "typed, words",
    [
        ("regard ex", "(explain)"),
        ("regard run --rep", "(run)(--repeat)"),
        ("regard run mask=caus", "(run)(mask=causal"),
        ("regard run fwd mask=window_t", "(run)(fwd)(mask=window_top_left"),
        ("regard run layout=bh", "(run)(layout=bhsd)"),
        ("regard explain --target cpu-ge", "(explain)(--target)(cpu-generic)"),
        ("regard explain --target=cpu-ge", "(explain)(--target=cpu-generic)"),
        ("regard bench --target cpu-generic,sm_90", "(bench)(--target)(cpu-generic,sm_90"),
        ("regard list --profile transf", "(list)(--profile)(transformer_engine)"),
        ("regard list --tier bui", "(list)(--tier)(built-in)"),
        ("regard bench --peers torch,cu", "(bench)(--peers)(torch,cudnn)"),
        ("regard run --out /etc/host", "(run)(--out)(/etc/host"),
    ],
)
def test_bash_completes(terminal, typed, words):
    assert words in terminal.line(typed + "\t")
