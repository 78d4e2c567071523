// Padded batches, packed batches, and three orders of the axes in memory.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call padded("fwd fp32 b=3 h=4 s=64 d=64 mask=causal lengths", target);
    padded.set<std::int32_t>(REGARD_LENGTHS_Q, {50, 64, 7});
    padded.set<std::int32_t>(REGARD_LENGTHS_K, {50, 64, 7});  // rows past them are neither read nor written
    padded.run_and_judge();

    gallery::Call packed("fwd fp32 b=3 h=4 s=64 tq=121 tk=121 d=64 mask=causal varlen", target);
    packed.set<std::int32_t>(REGARD_OFFSETS_Q, {0, 50, 114, 121});
    packed.set<std::int32_t>(REGARD_OFFSETS_K, {0, 50, 114, 121});
    packed.run_and_judge();

    for (const char* layout : {"bshd", "bhsd", "sbhd"}) {
      gallery::Call(std::string("fwd fp32 b=2 h=4 s=64 d=64 mask=causal layout=") + layout, target)
          .run_and_judge();
    }
  });
}
