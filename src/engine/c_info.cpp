#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "compile/nvrtc_library.h"
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

regard_status regard_prepare_kernel(const char* kernel, char** json) {
  if (kernel == nullptr) return report(null_argument("kernel").value());
  return guarded([&] { return give_result(prepare_kernel(kernel), json); });
}

regard_status regard_package_folders(const char* const* folders, int64_t count) {
  return guarded([&] {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      if (folders == nullptr) return report(null_argument("folders").value());
      if (folders[i] == nullptr) return report(null_argument(fmt::format("folders[{}]", i)).value());
      names.emplace_back(folders[i]);
    }
    name_package_folders(std::move(names));
    return REGARD_OK;
  });
}

regard_status regard_cache(const char* verb, char** json) {
  return guarded([&] { return give_result(cache_verb(verb == nullptr ? "" : verb), json); });
}
