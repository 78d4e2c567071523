// mha_fwd in your own namespace.
#ifndef QOLA_MHA_FWD_H
#define QOLA_MHA_FWD_H

#include "mha_fwd.h"
#include "qola_mha_api.h"

namespace qola {
namespace QOLA_NAMESPACE {

AITER_API float mha_fwd(const aiter::mha_fwd_args& args, const ck_tile::stream_config& stream_config);

}  // namespace QOLA_NAMESPACE
}  // namespace qola

#endif  // QOLA_MHA_FWD_H
