// CPU tiles: sizes that the kernels are made for (kernels/cpu/tile_sizes.h).
#pragma once

#include "plan/rules.h"

namespace regard {

Refusal forward_tile_sizes(const Question&);
Refusal backward_tile_sizes(const Question&);
Refusal decode_tile_sizes(const Question&);

}  // namespace regard
