// Which of the library's functions are seen from outside: those of the namespace aiter, or, where
// QOLA_NAMESPACE is set as to te, those of qola::te alone (qola_mha_fwd.h, qola_mha_bwd.h), so that several
// such libraries go into one process.
#ifndef AITER_MHA_API_H
#define AITER_MHA_API_H

#define AITER_VISIBLE __attribute__((visibility("default")))

#ifdef QOLA_NAMESPACE
#define AITER_API __attribute__((visibility("hidden")))
#define QOLA_NS_BEGIN \
  namespace qola {    \
  namespace QOLA_NAMESPACE {
#define QOLA_NS_END \
  }                 \
  }
#define QOLA_NS(symbol) qola::QOLA_NAMESPACE::symbol
#else
#define AITER_API AITER_VISIBLE
#endif

namespace aiter {

/// Where calls of this process compute from now on, as no argument says it: "cuda", as at first, or a CPU
/// target such as "cpu-avx2"; null is the best one of this machine.
AITER_API void use_target(const char* target);

/// Why the last call of this thread that returned -1 did so: a sentence, or "" where none did.
AITER_API const char* why_refused();

}  // namespace aiter

#endif  // AITER_MHA_API_H
