// The same interface in your own namespace: QOLA_NAMESPACE must be the one that the library was built with.
#ifndef QOLA_MHA_API_H
#define QOLA_MHA_API_H

#ifndef QOLA_NAMESPACE
#error \
    "QOLA_NAMESPACE is not set; compile with the one that the library was built with, as -DQOLA_NAMESPACE=te"
#endif

#include "mha_api.h"

#define QOLA_NS(symbol) qola::QOLA_NAMESPACE::symbol

namespace qola {
namespace QOLA_NAMESPACE {

AITER_API void use_target(const char* target);
AITER_API const char* why_refused();

}  // namespace QOLA_NAMESPACE
}  // namespace qola

#endif  // QOLA_MHA_API_H
