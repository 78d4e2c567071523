// What every function of the interface has in common.
#ifndef AITER_MHA_API_H
#define AITER_MHA_API_H

#define AITER_API __attribute__((visibility("default")))

namespace aiter {

/// Where calls of this process compute from now on, as they have no argument for it: "cuda" (the default), or
/// a CPU target such as "cpu-avx2"; null is the best one of this machine.
AITER_API void use_target(const char* target);

/// Why the last call of this thread that returned -1 did so: a sentence, or "" if none did.
AITER_API const char* why_refused();

}  // namespace aiter

#endif  // AITER_MHA_API_H
