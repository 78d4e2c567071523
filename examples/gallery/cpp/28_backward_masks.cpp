// Gradients under every mask by position.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* mask :
         {"none", "causal", "causal_top_left", "window:12,0", "window:12,6", "window:8,0,sink=4"}) {
      const std::string shape = std::string(" fp32 h=2 s=72 d=64 mask=") + mask;
      gallery::Call forward("fwd" + shape + " lse", target);
      forward.run(forward.plan());
      gallery::Call("bwd" + shape, target, &forward).run_and_judge();
    }
  });
}
