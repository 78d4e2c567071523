// Gradients: backward reads O and LSE of the forward pass, in as many stages as its plan has.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    const std::string shape = " fp32 b=2 h=4 s=100 d=64 mask=causal";
    gallery::Call forward("fwd" + shape + " lse", target);
    forward.run_and_judge();

    gallery::Call backward("bwd" + shape, target, &forward);
    const regard::Plan plan = backward.plan();
    backward.run(plan);
    backward.judge();
    std::printf("2.5 times the work of forward: %s\n",
                backward.problem().flops() == 2.5 * forward.problem().flops() ? "yes" : "no");
  });
}
