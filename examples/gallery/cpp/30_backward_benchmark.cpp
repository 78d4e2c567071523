// Time and rate of a forward and a backward pass.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call forward("fwd fp32 h=4 s=256 d=64 mask=causal lse", target);
    gallery::Call backward("bwd fp32 h=4 s=256 d=64 mask=causal", target, &forward);
    for (gallery::Call* call : {&forward, &backward}) {
      const double seconds = call->seconds(call->plan());
      std::printf("%.0f us, %.1f GFLOP/s\n", seconds * 1e6, call->problem().flops() / seconds * 1e-9);
      call->judge();
    }
  });
}
