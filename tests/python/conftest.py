import numpy
import pytest


@pytest.fixture
def random():
    return numpy.random.default_rng(3)
