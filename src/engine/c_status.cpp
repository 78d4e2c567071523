#include "engine/handles.h"

namespace regard::c_api {
namespace {

thread_local std::string last_message;

/// A sentence stays on one line whatever the caller's words hold. What a compiler said keeps its lines.
void keep_on_one_line(std::string& message) {
  for (char& c : message) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
}

}  // namespace

regard_status report(regard_status status, std::string_view message, std::string_view detail) noexcept {
  try {
    last_message.assign(message).append(detail);
    if (status != REGARD_NO_KERNEL) keep_on_one_line(last_message);
  } catch (const std::bad_alloc&) {
    // Short enough to need no memory of its own.
    last_message = "out of memory";
  }
  return status;
}

regard_status report(const Error& error) noexcept {
  return report(static_cast<regard_status>(error.kind), error.message);
}

regard_status give(const std::string& text, char** out) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  *out = copy;
  return REGARD_OK;
}

Result<EngineOptions> engine_options(const regard_plan_options* options) {
  EngineOptions result;
  if (options == nullptr) return result;
  if (options->size != sizeof(regard_plan_options)) {
    return invalid(
        fmt::format("regard_plan_options.size is {}, this library's is {}; use REGARD_PLAN_OPTIONS_INIT",
                    options->size, sizeof(regard_plan_options)));
  }
  if (options->target != nullptr) result.target = options->target;
  if (options->family != nullptr) result.family = options->family;
  result.threads = options->threads;
  return result;
}

Status check_arguments_size(const regard_arguments* arguments) {
  if (arguments == nullptr) return null_argument("arguments");
  if (arguments->size != sizeof(regard_arguments)) {
    return invalid(fmt::format("regard_arguments.size is {}, this library's is {}; use REGARD_ARGUMENTS_INIT",
                               arguments->size, sizeof(regard_arguments)));
  }
  return {};
}

}  // namespace regard::c_api

const char* regard_status_name(regard_status status) {
  switch (status) {
    case REGARD_OK:
      return "ok";
    case REGARD_INVALID:
      return "invalid";
    case REGARD_REFUSED:
      return "refused";
    case REGARD_NO_KERNEL:
      return "no_kernel";
    case REGARD_NO_MEMORY:
      return "no_memory";
    case REGARD_INTERNAL:
      return "internal";
  }
  return "unknown";
}

const char* regard_status_message(void) {
  return regard::c_api::last_message.c_str();
}

const char* regard_version(void) {
  return REGARD_VERSION;
}

void regard_string_free(char* string) {
  std::free(string);
}
