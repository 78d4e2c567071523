// Where a thread of a kernel is.
#pragma once

namespace emulator {

struct Index {
  unsigned x, y, z;
};

/// A thread's position in its launch.
struct Position {
  Index thread, block, block_size, grid_size;
};

}  // namespace emulator
