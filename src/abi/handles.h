// The C ABI's handles and how its functions report failure.
#pragma once

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "base/thread.h"
#include "engine/prepared.h"
#include "problem/problem.h"
#include "regard/regard.h"

struct regard_problem {
  regard::Problem problem;
  std::string text, json;
};

namespace regard::c_api {

/// A plan's handle is the plan itself, holding a share of it; the name stays without a definition.
inline regard_plan* handle_of(SharedPlan plan) {
  return reinterpret_cast<regard_plan*>(plan.release());
}
inline PreparedPlan* plan_of(regard_plan* handle) {
  return reinterpret_cast<PreparedPlan*>(handle);
}
inline PreparedPlan* plan_of(const regard_plan* handle) {
  return plan_of(const_cast<regard_plan*>(handle));  // lazy preparation does not change the plan for its user
}

/// Keeps the sentence for regard_status_message on this thread. Without memory for it, the sentence is "out
/// of memory".
regard_status report(const Error&) noexcept;
regard_status report(regard_status, std::string_view message, std::string_view detail = {}) noexcept;

/// Returns the result of `body`, which must not throw. Meanwhile the caller's floating-point mode is
/// suspended and the thread cannot be cancelled. For every function of the C ABI that does more than read.
template <class Body>
auto in_call(const Body& body) {
  return without_cancellation([&] {
    const FloatMode mode;
    return body();
  });
}

/// The same for `body` that returns a regard_status and may throw; no exception leaves the library.
template <class Body>
regard_status guarded(const Body& body) {
  return in_call([&] {
    try {
      return body();
    } catch (const std::bad_alloc&) {
      return report(REGARD_NO_MEMORY, "out of memory");
    } catch (const std::exception& error) {
      return report(REGARD_INTERNAL, "unexpected failure inside Regard: ", error.what());
    } catch (...) {
      return report(REGARD_INTERNAL, "unexpected failure inside Regard");
    }
  });
}

/// A copy that the caller frees with regard_string_free.
regard_status give(const std::string& text, char** out);

/// The options of a call, in any version of the struct; null means defaults.
Result<EngineOptions> engine_options(const regard_plan_options*);

/// The arguments of a call, whatever version of the header its caller was compiled with: roles that the
/// caller does not know are absent, and `storage` then holds the copy that says so. What the caller knows and
/// this library does not must be zero.
Result<const regard_arguments*> known_arguments(const regard_arguments*, regard_arguments& storage);

inline tl::unexpected<Error> null_argument(std::string_view name) {
  return invalid(fmt::format("{} is a null pointer", name));
}

}  // namespace regard::c_api
