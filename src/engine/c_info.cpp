#include <nlohmann/json.hpp>

#include "engine/describe.h"
#include "engine/handles.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

regard_status give_result(const Result<std::string>& result, char** out) {
  if (!result) return report(result.error());
  if (out == nullptr) return report(null_argument("json").value());
  return give(*result, out);
}

}  // namespace

regard_status regard_info(char** json) {
  return guarded([&] { return give_result(describe_machine(), json); });
}

regard_status regard_list(const char* target, const char* profile, char** json) {
  return guarded([&] {
    return give_result(list_kernels(target == nullptr ? "" : target, profile == nullptr ? "" : profile),
                       json);
  });
}

regard_status regard_cache(const char* verb, char** json) {
  return guarded([&] { return give_result(cache_verb(verb == nullptr ? "" : verb), json); });
}
