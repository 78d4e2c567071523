// Blocks on chips of several dies: each piece of work is done once, and a die has neighbouring ones.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulated_hip/problem.h"
#include "kernels/portable/die_order.h"

namespace regard::test {
namespace {

TEST(DieOrder, EveryPieceIsTakenOnceAndADieHasNeighbours) {
  for (const u32 dies : {2u, 6u, 8u}) {
    for (u32 count = 0; count < 70; ++count) {
      std::vector<bool> taken(count);
      std::vector<u32> next_of_die(dies, ~0u);
      for (u32 block = 0; block < count; ++block) {
        const u32 piece = in_die_order(block, count, dies);
        ASSERT_LT(piece, count) << dies;
        ASSERT_FALSE(taken[piece]) << dies;
        taken[piece] = true;
        u32& next = next_of_die[block % dies];
        ASSERT_TRUE(next == ~0u || piece == next) << dies;
        next = piece + 1;
      }
    }
  }
}

TEST(DieOrder, OnlyEvenWorkIsDealtToDies) {
  struct Case {
    u32 b, heads;
    bool masked, lengths, even;
  };
  const i32 some_lengths[1] = {};
  for (const Case& c :
       {Case{1, 8, true, true, true}, Case{4, 6, true, false, true}, Case{4, 6, true, true, false},
        Case{1, 6, true, false, false}, Case{1, 6, false, false, true}, Case{1, 6, false, true, false}}) {
    Arguments a{};
    a.b = c.b;
    a.positional = c.masked;
    a.lengths_k = c.lengths ? some_lengths : nullptr;
    EXPECT_EQ(dies_are_even(a, c.heads, 8), c.even) << c.b << " " << c.heads;
  }
}

/// Pieces that divide evenly among the dies and others, in each order in which a kernel numbers them.
TEST(DieOrder, KernelsComputeEveryRowAndKey) {
  for (const std::string problem :
       {"fwd bf16 d=64 b=2 hq=8 hk=2 s=200 mask=causal", "fwd bf16 d=64 b=3 h=3 s=300",
        "fwd bf16 d=64 b=3 hq=16 hk=8 s=150 tq=300 tk=300 varlen mask=causal",
        "fwd bf16 d=64 b=3 hq=8 hk=1 sq=1 sk=1000 splits=3",
        "bwd bf16 d=64 b=3 hq=16 hk=8 s=150 tq=300 tk=300 varlen mask=causal", "bwd bf16 d=64 b=1 h=3 s=250",
        // Blocks wait for those before them: on a machine where only some run at a time, in another order
        // they would wait forever.
        "bwd bf16 d=64 b=1 h=3 s=500 deterministic"})
    expect_right("gfx942", problem);
}

}  // namespace
}  // namespace regard::test
