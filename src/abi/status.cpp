#include "abi/handles.h"

#include <atomic>
#include <cstddef>

#include "abi/versions.h"
#include "base/text.h"
#include "base/thread.h"

namespace regard::c_api {
namespace {

const ThreadSlot<std::string> last_message;

/// Some thread had no memory to keep its message.
constinit std::atomic<bool> a_sentence_is_lost{false};
constexpr const char* out_of_memory = "out of memory";

/// Clears the message; a thread without one reports that there was no memory for it.
void forget_message() {
  (void)last_message.set(nullptr);
  a_sentence_is_lost.store(true, std::memory_order_relaxed);
}

/// A message stays on one line, whatever the caller's words contain, and of readable length; compiler output
/// keeps its lines.
std::string readable(std::string message, regard_status status) {
  constexpr std::size_t most = 4096;
  if (status == REGARD_NO_KERNEL) return printable(message, Newlines::kept);
  return printable(shortened(std::move(message), most));
}

}  // namespace

regard_status report(regard_status status, std::string_view message, std::string_view detail) noexcept {
  try {
    auto sentence = std::make_unique<std::string>(readable(std::string(message).append(detail), status));
    if (last_message.set(std::move(sentence))) return status;
  } catch (const std::bad_alloc&) {
  }
  forget_message();
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
  static constexpr Versions versions = {"regard_plan_options", "REGARD_PLAN_OPTIONS_INIT",
                                        offsetof(regard_plan_options, functions), sizeof(const char*)};
  regard_plan_options storage;
  const Result<const regard_plan_options*> known = this_version(options, storage, versions);
  if (!known) return tl::unexpected(known.error());
  if ((*known)->target != nullptr) result.target = (*known)->target;
  if ((*known)->family != nullptr) result.family = (*known)->family;
  result.threads = (*known)->threads;
  if ((*known)->functions != nullptr) result.functions = (*known)->functions;
  return result;
}

Result<const regard_arguments*> known_arguments(const regard_arguments* arguments,
                                                regard_arguments& storage) {
  if (arguments == nullptr) return null_argument("arguments");
  constexpr std::size_t first_roles = REGARD_SEED + 1;
  static constexpr Versions versions = {
      "regard_arguments", "REGARD_ARGUMENTS_INIT",
      offsetof(regard_arguments, tensor) + first_roles * sizeof(regard_tensor), sizeof(regard_tensor)};
  return this_version(arguments, storage, versions);
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
    case REGARD_INTERRUPTED:
      return "interrupted";
  }
  return "unknown";
}

const char* regard_status_message(void) {
  using namespace regard::c_api;  // NOLINT
  if (const std::string* sentence = last_message.get()) return sentence->c_str();
  return a_sentence_is_lost.load(std::memory_order_relaxed) ? out_of_memory : "";
}

const char* regard_version(void) {
  return REGARD_VERSION;
}

void regard_string_free(char* string) {
  regard::c_api::in_call([&] { std::free(string); });
}
