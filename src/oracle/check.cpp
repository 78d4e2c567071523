#include "oracle/check.h"
#include <nlohmann/json.hpp>
#include "oracle/oracle.h"
namespace regard::oracle {
Result<std::string> check_report(const Problem& p, const regard_arguments& a, int threads) {
  auto out = run(p, a, {threads, 0});
  if (!out) return tl::unexpected(out.error());
  nlohmann::json rows = nlohmann::json::array();
  bool ok = true;
  for (auto& c : compare(p, a, *out)) {
    ok = ok && c.ok;
    rows.push_back(
        {{"name", role_name(c.role)}, {"max_absolute", c.max_absolute}, {"ok", c.ok}, {"wrong", c.wrong}});
  }
  return nlohmann::json{{"ok", ok}, {"outputs", rows}}.dump();
}
}  // namespace regard::oracle
