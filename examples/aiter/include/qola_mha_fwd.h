// mha_fwd in a namespace of one's own: QOLA_NAMESPACE is the one that the library was built with.
#ifndef QOLA_MHA_FWD_H
#define QOLA_MHA_FWD_H

#ifndef QOLA_NAMESPACE
#error \
    "QOLA_NAMESPACE is not set; compile with the one that the library was built with, as -DQOLA_NAMESPACE=te"
#endif

#include "mha_fwd.h"
#include "qola_mha_api.h"

QOLA_NS_BEGIN
AITER_VISIBLE float mha_fwd(const aiter::mha_fwd_args& args, const ck_tile::stream_config& stream_config);
QOLA_NS_END

#endif  // QOLA_MHA_FWD_H
