// New keys, rotated by RoPE, are written into a dense cache in the call that attends to them.
#include "gallery.h"

#include <cmath>

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call call(
        "fwd fp32 b=2 hq=8 hk=2 sq=3 sk=40 d=64 mask=causal cache=4 snew=3 lengths rope=half rotary=64",
        target);
    std::vector<float> cos, sin;
    for (int position = 0; position < 40; ++position) {
      for (int i = 0; i < 32; ++i) {
        const double angle = position * std::pow(10000.0, -i / 32.0);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    call.set(REGARD_ROPE_COS, cos);
    call.set(REGARD_ROPE_SIN, sin);
    call.set<std::int32_t>(REGARD_LENGTHS_K, {20, 0});   // before the new tokens
    call.set<std::int32_t>(REGARD_CACHE_INDEX, {3, 1});  // which of the 4 sequences
    call.run_and_judge();

    const auto v = call.get(REGARD_V), v_new = call.get(REGARD_V_NEW);
    const std::size_t row = 2 * 64, sequence = 40 * row;
    if (!std::equal(&v_new[0], &v_new[3 * row], &v[3 * sequence + 20 * row]))
      throw std::runtime_error("v is wrong");
    std::printf("rows 20 to 22 of sequence 3 are the new values\n");
  });
}
