#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "abi/handles.h"
#include "base/interruption.h"
#include "compile/package_folders.h"
#include "engine/bundles.h"
#include "engine/cache_exchange.h"
#include "engine/describe.h"

using namespace regard;         // NOLINT: the C ABI's implementation
using namespace regard::c_api;  // NOLINT

namespace {

template <class Make>
regard_status give_result(Make&& make, char** out) {
  if (out == nullptr) return report(null_argument("json").value());
  const Result<std::string> result = make();
  return result ? give(*result, out) : report(result.error());
}

}  // namespace

regard_status regard_info(char** json) {
  return guarded([&] { return give_result(describe_machine, json); });
}

regard_status regard_list(const char* target, const char* profile, char** json) {
  return guarded([&] {
    return give_result(
        [&] { return list_kernels(target == nullptr ? "" : target, profile == nullptr ? "" : profile); },
        json);
  });
}

regard_status regard_prepare_kernel(const char* kernel, char** json) {
  return guarded([&] {
    if (kernel == nullptr) return report(null_argument("kernel").value());
    return give_result([&] { return prepare_kernel(kernel); }, json);
  });
}

regard_status regard_bundle_add(const char* path) {
  return guarded([&] {
    if (path == nullptr) return report(null_argument("path").value());
    const Status status = add_bundle(path);
    return status ? REGARD_OK : report(status.error());
  });
}

regard_status regard_package_bundle(const char* path) {
  return guarded([&] {
    if (path == nullptr) return report(null_argument("path").value());
    const Status status = add_bundle(path, NamedBy::package);
    return status ? REGARD_OK : report(status.error());
  });
}

regard_status regard_package_folders(const char* const* folders, int64_t count) {
  return guarded([&] {
    if (count < 0) return report(REGARD_INVALID, fmt::format("count is {}; it is not negative", count));
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

void regard_interrupt_if(int (*asked)(void)) {
  ask_whether_interrupted(asked);
}

regard_status regard_cache(const char* verb, char** json) {
  return guarded([&] { return give_result([&] { return cache_verb(verb == nullptr ? "" : verb); }, json); });
}

regard_status regard_cache_export(const char* bundle, char** json) {
  return guarded([&] {
    if (bundle == nullptr) return report(null_argument("bundle").value());
    return give_result([&] { return export_cache(bundle); }, json);
  });
}

regard_status regard_cache_import(const char* bundle, char** json) {
  return guarded([&] {
    if (bundle == nullptr) return report(null_argument("bundle").value());
    return give_result([&] { return import_cache(bundle); }, json);
  });
}
