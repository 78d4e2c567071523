"""Runs PyTorch's own tests of FlexAttention with regard.torch.flex_attention where they compile PyTorch's.

    python tools/flex_attention_suite.py FOLDER/test/inductor/test_flex_attention.py --length 256

What a test passes to torch.compile calls Regard instead and is not compiled; the reference of the test stays PyTorch's
uncompiled flex_attention. The file is used unchanged, except for its default length, which is --length, and for the
device: --device cpu also runs tests that ask for a GPU, and tests gradients, which PyTorch's has on a CPU if its check
of the device is left out. Needs the package expecttest. Prints each test that did not pass, and at the end how many
passed, and why others did not. `refused` is an error of Regard; `other` tests something else than attention, or expects
something of PyTorch's compiler (OTHERS).
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import functools
import importlib.util
import re
import sys
import time
import traceback
import types
import unittest
import warnings
from pathlib import Path

import torch
import torch.nn.attention.flex_attention as theirs

import regard.torch
from regard.errors import RegardError

PYTORCHS = theirs.flex_attention

# What these expect is not attention: code that the compiler writes, its messages, its recompiles.
OTHERS = {
    "inspects code that the compiler has generated": (
        *("*subgraph_respect_decompostion*", "*fw_bw_graph_correctness*", "*symbol_closure*", "*epilogue_fused*"),
        *("*logsumexp_only_return*", "*inputs_are_realized*", "*kernel_options_argument_is_respected*"),
        *("*make_block_mask*", "*modular_indexing*", "*comparison_vs_sdpa", "*force_write_lse*"),
    ),
    "expects a message of the compiler, or of its kernels for CPUs": (
        *("*cant_lower_error*", "*captured_reduction*", "*cpu_error_message*", "*validate_cpu_dtype*"),
        *("*captured_wrong_device*", "*mixed_device*", "*invalid_block_size*", "*mixed_dtypes_fails*"),
        "*block_mask_vs_sequence_lengths*",
    ),
    "makes block masks of PyTorch's experimental paged caches, whose function is not the mask": ("*paged*",),
    "counts how often the compiler compiles": ("*recompile*", "*dynamic*"),
    "expects that two uses of a tensor with a gradient are refused, which Regard computes": ("*symmetric_bias*",),
    "adds up the gradient of its reference in bf16, which is less exact than Regard's": (
        "*head_specific_gate*bfloat16*",
    ),
}


class TorchOfTests(types.ModuleType):
    """What tests find as torch: PyTorch with another `compile`, while PyTorch itself keeps its own."""

    def __init__(self, compile):
        super().__init__("torch")
        self.compile = compile

    def __getattr__(self, name):
        return getattr(torch, name)


class Counted:
    """regard.torch.flex_attention, and how often a test has called it."""

    def __init__(self):
        self.calls = 0

    def __call__(self, *arguments, **words):
        self.calls += 1
        return regard.torch.flex_attention(*arguments, **words)


def in_place_of_compile(ours, module):
    """What stands in for torch.compile in the tests."""

    def replaced(function=None, **options):
        if function is None:
            return functools.partial(replaced, **options)
        if function is PYTORCHS:
            return ours
        if isinstance(function, functools.partial) and function.func is PYTORCHS:
            return functools.partial(ours, *function.args, **function.keywords)
        if isinstance(function, torch.nn.Module):
            return function

        @functools.wraps(function)
        def call(*arguments, **words):
            module.flex_attention = ours
            try:
                return function(*arguments, **words)
            finally:
                module.flex_attention = PYTORCHS

        return call

    return replaced


def run_on_cpu():
    """Has PyTorch's uncompiled reference compute gradients on a CPU, and runs what asks for a GPU."""
    theirs._validate_device = lambda *tensors: None
    skip_unless = unittest.skipUnless

    def skip(condition, reason):
        return (lambda test: test) if reason.startswith("Requires") else skip_unless(condition, reason)

    unittest.skipUnless = skip


def load(file, options):
    source = file.read_text()
    if options.length is not None:
        source = re.sub(r"^S = \d+$", f"S = {options.length}", source, flags=re.MULTILINE)
    if options.device == "cpu":
        run_on_cpu()
        source = source.replace("test_inference_only = True", "test_inference_only = False")
        source = re.sub("""(["'])cuda\\1""", '"cpu"', source)
    spec = importlib.util.spec_from_loader(file.stem, loader=None, origin=str(file))
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # where unittest looks for it
    exec(compile(source, str(file), "exec", dont_inherit=True), module.__dict__)
    return module


class Outcomes(unittest.TestResult):
    """The outcome of each test, with a reason unless it has passed."""

    def __init__(self, ours):
        super().__init__()
        self.ours = ours
        self.found = collections.defaultdict(list)

    def startTest(self, test):
        super().startTest(test)
        self.ours.calls = 0

    def add(self, outcome, test, reason=""):
        name = test.id().rpartition(".")[2]
        self.found[outcome, reason].append(name)
        if outcome != "passed":
            print(f"{outcome}: {name}: {reason}", flush=True)

    def addSuccess(self, test):
        if self.ours.calls == 0:
            return self.add("other", test, "never calls a compiled flex_attention")
        self.add("passed", test)

    def addSkip(self, test, reason):
        self.add("skipped", test, reason)

    def addFailure(self, test, error):
        kind, value, trace = error
        text = str(value).strip().partition("\n")[0][:160]
        if issubclass(kind, RegardError):
            return self.add("refused", test, text)
        if "not compiled with CUDA" in text:
            return self.add("skipped", test, "asks for a GPU")
        if "experimental" in Path(traceback.extract_tb(trace)[-1].filename).parts:
            return self.add("other", test, "calls PyTorch's paged caches, whose arguments have changed")
        if self.ours.calls == 0:
            return self.add("other", test, "fails before it calls a compiled flex_attention")
        self.add("failed", test, text if issubclass(kind, AssertionError) else f"{kind.__name__}: {text}")

    addError = addFailure

    def addExpectedFailure(self, test, error):
        self.addSuccess(test)

    def addUnexpectedSuccess(self, test):
        self.add("failed", test, "was expected to fail")


def of_compiler(name):
    """Why a test is about the compiler and not about attention; None if it is not."""
    for reason, patterns in OTHERS.items():
        if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
            return reason
    return None


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument(
        "--length", type=int, help="rows and keys of tests that do not choose their own; the suite's: 2048"
    )
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of test names")
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=float("inf"), help="no test begins after that time")
    options = parser.parse_args()

    warnings.simplefilter("ignore")
    module = load(options.suite, options)
    ours = Counted()
    module.torch = TorchOfTests(in_place_of_compile(ours, module))
    module.TestFlexAttention.run_test_with_paged_attention = lambda *arguments, **words: None  # see OTHERS
    outcomes = Outcomes(ours)
    end = time.monotonic() + options.seconds
    for test in tests_of(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = test.id().rpartition(".")[2]
        named = any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in options.only)
        if not named or any(fnmatch.fnmatch(name, f"*{pattern}*") for pattern in options.without):
            continue
        if (reason := of_compiler(name)) is not None:
            outcomes.add("other", test, reason)
        elif time.monotonic() > end:
            outcomes.add("not run", test, "no time was left")
        else:
            test.run(outcomes)
    print("\n| outcome | tests | reason |\n|---|---|---|")
    for (outcome, reason), names in sorted(outcomes.found.items(), key=lambda item: (item[0][0], -len(item[1]))):
        print(f"| {outcome} | {len(names)} | {reason} |".replace("  ", " "))
    return any(outcome == "failed" for outcome, _ in outcomes.found)


if __name__ == "__main__":
    sys.exit(main())
