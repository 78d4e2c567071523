// `deterministic`: the same bits on every run, where a GPU would otherwise add to dQ in no fixed order.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call forward("fwd fp32 b=2 h=4 s=96 d=64 lse", target);
    forward.run(forward.plan());
    gallery::Call backward("bwd fp32 b=2 h=4 s=96 d=64 deterministic", target, &forward);
    backward.run_and_judge();
    const auto once = backward.get(REGARD_GRAD_Q);
    bool same = true;
    for (int run = 0; run < 4; ++run) {
      backward.run(backward.plan());
      same = same && once == backward.get(REGARD_GRAD_Q);
    }
    std::printf("five runs have the same bits: %s\n", same ? "yes" : "no");
    if (!same) throw std::runtime_error("they differ");
  });
}
