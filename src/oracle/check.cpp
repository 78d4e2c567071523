#include "oracle/check.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "oracle/oracle.h"

namespace regard::oracle {
namespace {

// About what a core does in fp64 here, in multiply-adds per second, and how long a check may take.
constexpr double speed = 1e9, seconds = 2;

/// Multiply-adds for one query row of one head, errors included.
double row_cost(const Problem& p) {
  const double keys = static_cast<double>(p.sk) + 1, d = static_cast<double>(p.d),
               dv = static_cast<double>(p.dv);
  // Forward: scores, then values and their variance. Backward: scores, dP, and five sums with variance.
  const double columns = p.pass == Pass::fwd ? d + 2 * dv + 20 : 7 * d + 5 * dv + 30;
  return keys * columns;
}

std::int64_t at_least_one(double count) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(count));
}

/// What of the problem can be checked in time.
Options sample(const Problem& p, int threads) {
  Options options{threads, 0, 0};
  const double budget = speed * seconds * std::max(threads, 1);
  const double rows = static_cast<double>(p.sq), heads = static_cast<double>(p.b) * static_cast<double>(p.hq);
  if (row_cost(p) * rows * heads <= budget) return options;
  if (p.pass == Pass::fwd) {
    options.max_rows = std::max<std::int64_t>(2, at_least_one(budget / (row_cost(p) * heads)));
    return options;
  }
  const std::int64_t heads_per_kv = p.hq / p.hk;
  const double group = row_cost(p) * rows * static_cast<double>(heads_per_kv);
  options.max_heads = at_least_one(budget / group);
  if (group > budget) options.max_rows = std::max<std::int64_t>(2, at_least_one(rows * budget / group));
  return options;
}

/// JSON has no infinity.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(std::to_string(value));
}

nlohmann::json to_json(const Comparison& c) {
  return {{"max_absolute", number(c.max_absolute)},
          {"max_relative", number(c.max_relative)},
          {"tolerance", number(c.tolerance)},
          {"worst", number(c.worst)},
          {"compared", c.compared},
          {"wrong", c.wrong},
          {"ok", c.ok}};
}

}  // namespace

Result<std::string> check_report(const Problem& problem, const regard_arguments& arguments, int threads) {
  const Options options = sample(problem, threads);
  const Result<Outputs> expected = run(problem, arguments, options);
  if (!expected) return tl::unexpected<Error>(expected.error());

  nlohmann::json outputs = nlohmann::json::object(), skipped = nlohmann::json::array();
  bool ok = true;
  for (const Comparison& comparison : compare(problem, arguments, *expected)) {
    outputs[std::string(role_name(comparison.role))] = to_json(comparison);
    ok = ok && comparison.ok;
  }
  for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
    const TensorSpec spec = tensor_spec(problem, static_cast<regard_role>(i));
    if (spec.use == REGARD_OUTPUT && !outputs.contains(std::string(spec.name))) skipped.push_back(spec.name);
  }
  const nlohmann::json report = {{"ok", ok},
                                 {"sampled", options.max_rows > 0 || options.max_heads > 0},
                                 {"skipped", skipped},
                                 {"outputs", outputs}};
  return report.dump();
}

}  // namespace regard::oracle
