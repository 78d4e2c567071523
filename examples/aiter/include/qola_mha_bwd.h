// mha_bwd in your own namespace.
#ifndef QOLA_MHA_BWD_H
#define QOLA_MHA_BWD_H

#include "mha_bwd.h"
#include "qola_mha_api.h"

namespace qola {
namespace QOLA_NAMESPACE {

AITER_API float mha_bwd(const aiter::mha_bwd_args& args, const ck_tile::stream_config& stream_config);

}  // namespace QOLA_NAMESPACE
}  // namespace qola

#endif  // QOLA_MHA_BWD_H
