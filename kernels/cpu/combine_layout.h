// The grid of combine.cpp: one block per this many rows of one (batch, head).
#pragma once

#include "kernels/arguments.h"

namespace regard {

constexpr i64 combine_rows = 64;

}  // namespace regard
