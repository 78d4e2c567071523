// Calls of this library end before their thread does.
#pragma once

#include <pthread.h>

#include <type_traits>

namespace regard {

namespace no_cancellation {
// A function of its own: its caller's frame has nothing to undo, so that an asynchronous cancellation may
// come at each of the caller's instructions.
template <class Body>
[[gnu::noinline]] auto run(const Body& body) noexcept {
  return body();
}
}  // namespace no_cancellation

/// What `body` gives, which throws nothing. Until then pthread_cancel of this thread waits: a cancellation
/// unwinds the stack like an exception that nobody may catch, and ends the process at the first handler or
/// destructor in its way.
template <class Body>
auto without_cancellation(const Body& body) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED,
                        &type);  // a signal that is on its way goes by it in glibc 2.36
  const auto restore = [&] {
    pthread_setcanceltype(type, nullptr);
    pthread_setcancelstate(state, nullptr);
  };
  if constexpr (std::is_void_v<std::invoke_result_t<const Body&>>) {
    no_cancellation::run(body);
    restore();
  } else {
    const auto result = no_cancellation::run(body);
    restore();
    return result;
  }
}

}  // namespace regard
