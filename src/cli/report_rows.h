// What files say that other verbs, benchmarks and REGARD_VERIFY have written, for `regard report`.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace regard::cli {

/// A measured problem, with the rates of everyone who computed it.
struct Measured {
  std::string problem, measure, machine, target, kernel, refused;
  double regard_ms = 0;
  std::map<std::string, double> gflops;  ///< by contestant, "regard" among them
  std::map<std::string, double> shares;  ///< of each ceiling
};

/// One output compared with the fp64 oracle.
struct Checked {
  std::string problem, source, output;
  double max_absolute = 0, tolerance = 0, worst = 0;
  bool ok = false;
};

struct Rerun {
  std::string problem, saved_on, target, verdict, why;
  std::int64_t different = 0, outside = 0;
};

/// A tuning record, or one that `regard tune --check` measured again.
struct Tuned {
  std::string problem, where, candidate, verdict;
  double ms = 0;
  std::string beside;  ///< the cost model's choice, or what is faster now
  double beside_ms = 0;
};

/// A comparison that REGARD_VERIFY printed as text.
struct Compared {
  std::string problem, beside, text;
};

struct ReportRows {
  std::vector<Measured> measured;
  std::vector<Checked> checked;
  std::vector<Rerun> reruns;
  std::vector<Tuned> tuned;
  std::vector<Compared> compared;
  std::map<std::string, std::int64_t> counters;  ///< of all runs together
  std::int64_t left_out = 0;                     ///< JSON objects that are none of these
};

/// Adds what a file says. A file that says nothing of this kind is an error.
void add_file(const std::string& path, ReportRows& rows);

}  // namespace regard::cli
