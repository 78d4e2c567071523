// A soft cap bounds the scores: S becomes cap * tanh(S / cap), in forward and backward.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* cap : {"5", "30"}) {
      const std::string shape = std::string(" fp32 h=4 s=90 d=64 mask=causal softcap=") + cap;
      gallery::Call forward("fwd" + shape + " lse", target);
      forward.run_and_judge();
      gallery::Call("bwd" + shape, target, &forward).run_and_judge();
    }
  });
}
