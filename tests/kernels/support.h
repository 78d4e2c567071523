// Table-driven kernel tests: a line of problem text, run on a target through the C ABI and checked by the
// oracle.
#pragma once

#include <string>
#include <vector>

#include "support/case.h"

namespace regard::test {

/// Every kind of visibility, alone and combined: words to append to a problem.
inline const std::vector<std::string> masks = {"mask=none",
                                               "mask=causal",
                                               "mask=causal_top_left",
                                               "mask=window:20,5",
                                               "mask=window:0,0",
                                               "mask=window:-1,10,top_left",
                                               "mask=window:15,0,sink=3",
                                               "mask=window:15,0,top_left,sink=70",
                                               "ranges",
                                               "mask=causal ranges",
                                               "mask=window:40,0,sink=5 ranges",
                                               "bits",
                                               "mask=causal bits",
                                               "mask=window:40,0,sink=5 bits ranges"};

struct Path {
  std::string target;  ///< "cpu-avx2"; empty: the best of this machine
  std::string family;  ///< "generic", "forward", ...; empty: any
  int threads = 2;
  int runs = 1;                ///< consecutive runs in the same workspace
  std::string functions = {};  ///< how score= and keep= are computed: "words", "interpreted"; empty: either
};

/// CPU targets that this machine can run, best first.
std::vector<std::string> runnable_targets();
bool is_gpu(const std::string& target);

/// Runs the call once; returns an empty string or the status's sentence.
std::string run(Case&, const Path&);

/// Runs the problem and expects every output within tolerance and nothing written outside. The failure
/// message contains the problem text, which can be pasted into `regard run`. For a large forward problem
/// only some rows are checked. This and the functions below do nothing for a problem that is not in the part
/// of this run (support/part.h).
void expect_right(const std::string& text, const Path&, const CaseOptions& = {});

/// The same with several kernels on the same numbers: the oracle takes longer than most of them.
void expect_right_by_each(const std::string& text, const std::vector<Path>&, const CaseOptions& = {});

/// The same for many problems.
void expect_all_right(const std::vector<std::string>& texts, const Path&, const CaseOptions& = {});

/// Two runs give the same bits.
void expect_same_bits(const std::string& text, const Path& first, const Path& second);

}  // namespace regard::test
