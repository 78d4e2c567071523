"""The CPU's kernel tests, run on the GPU: every feature alone and in pairs against the fp64 oracle, with poisoned
outputs and guards around them."""

import pytest

from here import KERNELS, Crowd, run, targets

# Tests of memory check that of this process; a GPU has its own.
SUITES = "Forward.*:Backward.*:BiasType.*:Decode.*:Parts.*:*/EightBits.*:*/EqualNumbers.Backward*"
FILTER = f"--gtest_filter={SUITES}-*.MemoryIsLinear*"


def names_of_tests(target):
    suite, names = "", []
    for line in run(KERNELS, FILTER, "--gtest_list_tests", REGARD_TEST_TARGETS=target).stdout.splitlines():
        if line.endswith("."):
            suite = line
        elif suite and line.startswith("  "):
            names.append(suite + line.split()[0])
    return names


def check(target, test):
    return run(KERNELS, f"--gtest_filter={test}", "--gtest_brief=1", REGARD_TEST_TARGETS=target, GTEST_OUTPUT="")


ROWS = [(target, test) for target in targets() for test in names_of_tests(target)]
crowd = Crowd(check)


@pytest.mark.parametrize(("target", "test"), ROWS)
def test_kernels(target, test):
    done = crowd.result(target, test)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
