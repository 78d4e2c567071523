"""A caller's own choice of kernels, and tuning records."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from places import BUILD

import regard

PROBLEM = "fwd fp32 b=1 hq=4 hk=1 sq=1 sk=300 d=64"


@pytest.fixture(autouse=True)
def nothing_chosen():
    yield
    regard.choose_by(None)
    regard.use_tuning(None)


def chosen(**options):
    explanation = regard.explain(PROBLEM, format="json", **options)
    return next(each["candidate"] for each in explanation["verdicts"] if each["chosen"]), explanation["chosen_by"]


def kernels(problem=PROBLEM):
    return [stage["kernel"] for stage in json.loads(regard.plan(problem).json)["stages"]]


def test_a_function_chooses_for_new_plans():
    before = kernels()
    asked = []

    def last(problem, target, candidates):
        asked.append((problem.text, target, sorted(candidates.values()) == [*candidates.values()]))
        return [*candidates][-1]

    regard.choose_by(last)
    assert kernels() != before
    assert asked == [(PROBLEM, regard.plan(PROBLEM).target, True)]
    assert chosen()[1] == "caller"
    regard.choose_by(lambda problem, target, candidates: None)
    assert chosen()[1] == "cost"
    assert kernels() == before


def test_calls_follow_it():
    torch = pytest.importorskip("torch")
    q = torch.randn(1, 1, 4, 64)
    k = torch.randn(1, 300, 1, 64)
    results = [regard.attention(q, k, k) for _ in range(2)]
    asked = []
    regard.choose_by(lambda problem, target, candidates: asked.append(problem.text) or [*candidates][-1])
    results.append(regard.attention(q, k, k))
    assert len(asked) == 1
    regard.choose_by(None)
    np.testing.assert_allclose(results[2], results[0], rtol=1e-4, atol=1e-5)


def test_what_it_raises_the_call_raises():
    def broken(problem, target, candidates):
        raise KeyError("no such row")

    regard.choose_by(broken)
    for call in (regard.plan, regard.explain):
        with pytest.raises(KeyError, match="no such row"):
            call(PROBLEM)
    with pytest.raises(regard.InvalidError, match="bf17"):  # nothing of it is left
        regard.plan("fwd bf17 s=64 d=64")


@pytest.mark.parametrize(("answer", "error"), [(3, TypeError), ("", regard.InvalidError)])
def test_what_is_no_name_is_refused(answer, error):
    regard.choose_by(lambda *given: answer)
    with pytest.raises(error, match="choice of kernels"):
        regard.explain(PROBLEM)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="choose_by takes a function"):
        regard.choose_by("forward")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A folder with a record of a candidate that the cost model does not take, in a file and in a bundle."""
    folder = tmp_path_factory.mktemp("recorded")

    def command(*words):
        where = {"REGARD_CPU_TARGET": "cpu-generic", "REGARD_THREADS": "1"}
        run = subprocess.run([BUILD / "regard", *words], cwd=folder, env=os.environ | where, capture_output=True)
        assert run.returncode == 0, run.stderr
        return run.stdout

    command("tune", PROBLEM, "--seconds=0", "--out=tuning")
    record = json.loads((folder / "tuning").read_text())
    verdicts = json.loads(command("explain", PROBLEM, "--json"))["verdicts"]
    names = [each["candidate"] for each in verdicts if each["accepted"]]
    other = next(name for name in names if name.split()[0] not in (record["by_cost"].split()[0], "generic"))
    record |= {"candidate": other, "times": {other: 1.0}, "kernels": {}}
    (folder / "tuning").write_text(json.dumps(record))
    (folder / "te.toml").write_text('[build]\ntargets = ["cpu-generic"]\ntuning = "tuning"\n')
    command("build", "te.toml", "--output=.")
    return folder


@pytest.mark.parametrize("later", ["use_tuning('tuning')", "add_bundle('te.bundle')"])
def test_remembered_calls_follow_records_that_come_later(recorded, later):
    pytest.importorskip("torch")
    program = f"""
import torch, regard
q, k = torch.randn(1, 1, 4, 64), torch.randn(1, 300, 1, 64)
call = lambda: regard.attention(q, k, k)
first = [call() for _ in range(3)]
before = regard.info()["counters"]["plans"]
regard.{later}
again = [call() for _ in range(3)]
torch.testing.assert_close(again, first)
print(before, regard.info()["counters"]["plans"])
"""
    where = {"REGARD_CPU_TARGET": "cpu-generic", "REGARD_THREADS": "1", "REGARD_LOG": "plan"}
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, cwd=recorded, env=os.environ | where, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    before, after = (int(word) for word in run.stdout.split())
    assert after == before + 1
    first, again = (line for line in run.stderr.splitlines() if PROBLEM in line)
    assert first != again, run.stderr


def test_files_of_records(tmp_path):
    with pytest.raises(regard.InvalidError, match="missing"):
        regard.use_tuning(tmp_path / "missing")
    (tmp_path / "empty").write_text("\n")
    regard.use_tuning(tmp_path / "empty")
    assert chosen()[1] == "cost"
