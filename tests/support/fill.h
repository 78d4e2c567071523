// Random contents of a problem's inputs, one function per kind of tensor.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "problem/problem.h"

namespace regard::test {

using Random = std::mt19937_64;

/// Cumulative offsets of `b` sequences of 0 to `longest` rows in `tokens` rows; the first sequence is as long
/// as it can be, the second is empty.
std::vector<double> random_offsets(Random&, std::int64_t b, std::int64_t longest, std::int64_t tokens);
/// Logical lengths up to the physical ones; the last is 0 when there are more than two.
std::vector<double> random_lengths(Random&, const std::vector<std::int64_t>& physical);
/// [lo, hi) of each row; some rows are empty.
std::vector<double> random_ranges(Random&, std::int64_t rows, std::int64_t sk);
/// Words of visibility bits, two thirds of them set; whole words and rows of zeros among them.
std::vector<double> random_bits(Random&, std::int64_t rows, std::int64_t words);
std::vector<double> normal(Random&, std::int64_t count, double scale, double offset = 0);
/// LSE of merge, in rows of `tokens`: -infinity for a quarter of them, and for all of each fifth token.
std::vector<double> random_lse(Random&, std::int64_t count, std::int64_t tokens);
std::vector<double> whole_numbers(Random&, std::int64_t count, std::int64_t low, std::int64_t high);
std::vector<double> uniform(Random&, std::int64_t count, double low, double high);

}  // namespace regard::test
