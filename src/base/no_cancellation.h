// A thread that is cancelled during a call of this library ends only after the call.
#pragma once

#include <pthread.h>

#include <type_traits>

namespace regard {

namespace no_cancellation {
// A separate function, so that its caller's frame has nothing to clean up and an asynchronous cancellation
// may arrive at any of the caller's instructions.
template <class Body>
[[gnu::noinline]] auto run(const Body& body) noexcept {
  return body();
}
}  // namespace no_cancellation

/// Returns what `body` returns, which must not throw. A pthread_cancel of this thread is deferred until then:
/// a cancellation unwinds the stack like an exception that must not be caught, and would end the process at
/// the first handler or destructor in its way.
template <class Body>
auto without_cancellation(const Body& body) {
  int state, type;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  // In glibc 2.36 a cancellation signal that is already on its way goes by the type, not the state.
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
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
