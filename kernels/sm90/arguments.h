// What the forward kernel for Hopper is called with, beside the tensor maps of Q, K and V.
#pragma once

namespace regard {

struct ForwardArguments {
  unsigned* counter;  // of work taken; 0 at launch
  void* o;            // [batch, head, row, column] with these strides, in elements; columns are contiguous
  long long o_batch, o_head, o_row;
  float* lse;  // [b, hq, sq], natural log; null: not wanted
  int b, hq, hk, sq, sk;
  int diagonal;                   // key of query row 0 on the diagonal: sk - sq or 0
  int window_left, window_right;  // keys visible left and right of the diagonal; -1: unbounded
  int group;                      // (batch, head) pairs that are worked on side by side
  float scale_log2;               // scale * log2(e), more than 0
};

}  // namespace regard
