// System calls that fail when a test says so: all of them, including those inside the C library and the
// loader.
#pragma once

#include <functional>
#include <string>

namespace regard::test {

/// Whether this machine lets a process trace its child like that.
bool system_calls_can_fail();

/// Runs `call` in a traced child, where its n-th system call (of those that may fail) fails with this errno,
/// then `next`, in which no call fails. `failed` is set to whether there was an n-th call. Returns what was
/// wrong: what they return, or how the child died.
std::string with_failing_call(long n, int error, bool& failed, const std::function<std::string()>& call,
                              const std::function<std::string()>& next);

}  // namespace regard::test
