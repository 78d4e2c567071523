// CPU tiles: the sizes that the kernels support (kernels/cpu/tile_sizes.h).
#pragma once

#include "plan/rules.h"

namespace regard {

Refusal forward_tile_sizes(const Question&);
Refusal backward_tile_sizes(const Question&);
Refusal decode_tile_sizes(const Question&);

}  // namespace regard
