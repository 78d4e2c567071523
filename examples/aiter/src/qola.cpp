// The functions in your own namespace.
#include "qola_mha_bwd.h"
#include "qola_mha_fwd.h"

namespace qola {
namespace QOLA_NAMESPACE {

float mha_fwd(const aiter::mha_fwd_args& args, const ck_tile::stream_config& stream_config) {
  return aiter::mha_fwd(args, stream_config);
}

float mha_bwd(const aiter::mha_bwd_args& args, const ck_tile::stream_config& stream_config) {
  return aiter::mha_bwd(args, stream_config);
}

void use_target(const char* target) {
  aiter::use_target(target);
}

const char* why_refused() {
  return aiter::why_refused();
}

}  // namespace QOLA_NAMESPACE
}  // namespace qola
