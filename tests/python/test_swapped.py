"""[b, h, s, d] where [b, s, h, d] is expected runs; a warning says so once per process."""

import warnings

import numpy
import pytest

import regard
from regard import shapes

SWAPPED = {"as many heads": ((1, 4, 200, 8),) * 2, "groups": ((1, 4, 50, 8), (1, 2, 50, 8))}
MEANT = {
    "a short prompt": ((1, 5, 32, 8),) * 2,
    "one token": ((1, 1, 128, 8), (1, 60, 1, 8)),
    "many heads of few tokens": ((1, 4, 128, 8),) * 2,
    "few keys": ((1, 64, 8, 8), (1, 4, 8, 8)),
}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(shapes, "_warned", False)


def said(sizes, **options):
    q, k = (numpy.zeros(size, numpy.float32) for size in sizes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        regard.attention(q, k, k, **options)
    assert [each.filename for each in caught] == [__file__] * len(caught)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("name", SWAPPED)
def test_what_looks_swapped_is_said_once(name):
    (message,) = said(SWAPPED[name])
    assert message.startswith("q has 4 tokens of ") and "pass layout='bhsd'" in message
    assert not said(SWAPPED[name])


@pytest.mark.parametrize("name", MEANT)
def test_what_models_have_is_not_warned_of(name):
    assert not said(MEANT[name])


def test_who_names_a_layout_means_it():
    assert not said(SWAPPED["as many heads"], layout="bshd")
