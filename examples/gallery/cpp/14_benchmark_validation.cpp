// Time and rate, and the verdict on what was measured.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* text : {"fwd fp32 h=4 s=256 d=64", "fwd fp32 h=4 s=512 d=64 mask=causal"}) {
      gallery::Call call(text, target);
      const double seconds = call.seconds(call.plan());
      std::printf("%.0f us, %.1f GFLOP/s\n", seconds * 1e6, call.problem().flops() / seconds * 1e-9);
      call.judge();
    }
  });
}
