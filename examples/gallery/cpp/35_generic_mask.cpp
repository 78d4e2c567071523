// Any mask at all, in one bit for each pair: bit j % 32 of word j / 32 says that the row sees key j.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call("fwd fp32 h=2 s=64 d=64 bits lse", target);
    std::vector<std::uint32_t> bits;
    for (std::uint32_t head = 0; head < 2; ++head) {
      for (std::uint32_t row = 0; row < 64; ++row) {
        for (std::uint32_t word = 0; word < 2; ++word) {
          std::uint32_t seen = 0;
          for (std::uint32_t j = 0; j < 32; ++j)
            seen |= std::uint32_t{(row ^ (32 * word + j)) % (head + 2) == 0} << j;
          bits.push_back(seen);
        }
      }
    }
    call.set(REGARD_BITS, bits);
    call.run_and_judge();
    gallery::Call backward("bwd fp32 h=2 s=64 d=64 bits", target, &call);
    backward.set(REGARD_BITS, bits);
    backward.run_and_judge();
  });
}
