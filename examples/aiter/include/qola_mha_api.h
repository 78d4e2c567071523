// What mha_api.h has, in a namespace of one's own.
#ifndef QOLA_MHA_API_H
#define QOLA_MHA_API_H

#include "mha_api.h"

QOLA_NS_BEGIN
AITER_VISIBLE void use_target(const char* target);
AITER_VISIBLE const char* why_refused();
QOLA_NS_END

#endif  // QOLA_MHA_API_H
