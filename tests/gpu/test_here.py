"""The names of tests in the results."""

import pytest

from here import part_and_test


@pytest.mark.parametrize("test", ["test_kernels[sm_90a-Forward.Tails]", "test_kernels[a-Kernels/EightBits.Tails/a]"])
@pytest.mark.parametrize("folder", ["", "tests/gpu/"])
def test_the_part_is_the_file_whatever_the_row_has(folder, test):
    assert part_and_test(f"{folder}test_matrix.py::{test}") == ("matrix", test)
