// Gradients with a bias and dropout; that of a bias is summed over the dimensions along which it is shared.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* bias : {"11", "1h", "bh"}) {
      const std::string shape = std::string(" fp32 b=2 h=4 s=60 d=64 dropout=0.2 bias=") + bias;
      gallery::Call forward("fwd" + shape + " lse", target);
      forward.arguments().dropout(11, 5);
      forward.run(forward.plan());
      gallery::Call backward("bwd" + shape + " dbias", target, &forward);
      backward.arguments().dropout(11, 5);  // draws the same mask again
      backward.run_and_judge();
    }
  });
}
