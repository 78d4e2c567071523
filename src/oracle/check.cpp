#include "oracle/check.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "oracle/oracle.h"

namespace regard::oracle {
namespace {

// The approximate speed of a core in fp64 here, in multiply-adds per second, and how long a check may take.
constexpr double speed = 1e9, seconds = 2;

/// Multiply-adds for one query row of one head, errors included.
double row_cost(const Problem& p) {
  const double keys = static_cast<double>(p.pass == Pass::merge ? p.parts : p.sk) + 1,
               d = static_cast<double>(p.d), dv = static_cast<double>(p.dv);
  // Forward: scores, then values and their variance. Backward: scores, dP, and five sums with variance.
  const double columns = p.pass == Pass::fwd ? d + 2 * dv + 20 : 7 * d + 5 * dv + 30;
  return keys * columns;
}

std::int64_t at_least_one(double count) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(count));
}

void write(JsonWriter& json, const Comparison& c) {
  json.object([&] {
    json.member("compared", c.compared);
    write_number(json, "max_absolute", c.max_absolute);
    write_number(json, "max_relative", c.max_relative);
    json.member("ok", c.ok);
    write_number(json, "tolerance", c.tolerance);
    write_number(json, "worst", c.worst);
    json.member("wrong", c.wrong);
  });
}

}  // namespace

void write_number(JsonWriter& json, std::string_view name, double value) {
  std::isfinite(value) ? json.member(name, value) : json.member(name, std::to_string(value));
}

Options sample(const Problem& p, int threads) {
  Options options{threads, 0, 0};
  if (p.pass == Pass::append || p.pass == Pass::merge) return options;  // these read each number once
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

Result<std::string> check_report(const Problem& problem, const regard_arguments& arguments, int threads) {
  if (problem.accumulate) {
    return refused(
        "a merge in place overwrites the O and LSE that a check reads; check it without accumulate, with O "
        "and "
        "LSE as one more part");
  }
  const Options options = sample(problem, threads);
  const Result<Outputs> expected = run(problem, arguments, options);
  if (!expected) return tl::unexpected<Error>(expected.error());

  std::vector<Comparison> comparisons = compare(problem, arguments, *expected);
  std::ranges::sort(comparisons, {}, [](const Comparison& c) { return role_name(c.role); });
  const auto compared = [&](regard_role role) {
    return std::ranges::find(comparisons, role, &Comparison::role) != comparisons.end();
  };
  JsonWriter json;
  json.object([&] {
    json.member("ok", std::ranges::all_of(comparisons, &Comparison::ok));
    json.member("outputs", [&] {
      json.object([&] {
        for (const Comparison& c : comparisons) json.member(role_name(c.role), [&] { write(json, c); });
      });
    });
    json.member("sampled", options.max_rows > 0 || options.max_heads > 0);
    json.member("skipped", [&] {
      json.list([&] {
        for (int i = 0; i < REGARD_ROLE_COUNT; ++i) {
          const TensorSpec spec = tensor_spec(problem, static_cast<regard_role>(i));
          if (is_written(spec.use) && !compared(static_cast<regard_role>(i))) json.value(spec.name);
        }
      });
    });
  });
  return json.take();
}

}  // namespace regard::oracle
