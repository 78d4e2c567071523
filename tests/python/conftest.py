import os
import tempfile

import pytest

# Kernels are compiled again in every session and kept out of the user's cache. A session that a test starts has those
# of the test's own.
if "PYTEST_CURRENT_TEST" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="regard-tests-")
    os.environ["REGARD_CACHE_DIR"] = _cache.name

# PyTorch would keep the gradients of graphs by what is in the graphs, not by what the operators' gradients are now.
os.environ["TORCHINDUCTOR_AUTOGRAD_CACHE"] = "0"

import numpy  # noqa: E402


@pytest.fixture
def random():
    return numpy.random.default_rng(3)
