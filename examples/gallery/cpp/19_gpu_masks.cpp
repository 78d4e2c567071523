// Masks by position, by a range of keys for each row, and by one bit for each pair, on any target.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* mask :
         {"none", "causal", "causal_top_left", "window:16,0", "window:8,8,top_left", "window:8,0,sink=4"}) {
      gallery::Call(std::string("fwd fp32 h=2 s=72 d=64 mask=") + mask, target).run_and_judge();
    }
    gallery::Call ranges("fwd fp32 h=2 s=72 d=64 ranges", target);
    std::vector<std::int32_t> of_chunks;  // a row sees its own chunk of 24 keys
    for (std::int32_t row = 0; row < 72; ++row) {
      of_chunks.push_back(row - row % 24);
      of_chunks.push_back(row - row % 24 + 24);
    }
    ranges.set(REGARD_RANGES, of_chunks);
    ranges.run_and_judge();
  });
}
