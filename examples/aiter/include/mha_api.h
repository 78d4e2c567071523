// Declarations that all functions of the interface share.
#ifndef AITER_MHA_API_H
#define AITER_MHA_API_H

#define AITER_API __attribute__((visibility("default")))

namespace aiter {

/// Selects where later calls of this process compute, as they have no argument for it: "cuda" (the default),
/// a CPU target such as "cpu-avx2", or null for the best CPU target of this machine.
AITER_API void use_target(const char* target);

/// The reason why this thread's last failed call returned -1, as a sentence; "" if none did.
AITER_API const char* why_refused();

}  // namespace aiter

#endif  // AITER_MHA_API_H
