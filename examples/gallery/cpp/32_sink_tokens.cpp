// Two kinds of sinks: first tokens that stay visible left of a window, and a learned logit for each head.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call("fwd fp32 h=4 s=100 d=64 mask=window:16,0,sink=4", target).run_and_judge();

    gallery::Call forward("fwd fp32 h=4 s=100 d=64 mask=causal sink lse", target);
    forward.run_and_judge();
    gallery::Call("bwd fp32 h=4 s=100 d=64 mask=causal sink", target, &forward)
        .run_and_judge();  // and its gradient
  });
}
