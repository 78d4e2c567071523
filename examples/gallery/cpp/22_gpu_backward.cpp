// A training step's attention on one target: forward with LSE, then the gradients, in memory that stays
// there.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    gallery::Call forward("fwd fp32 hq=4 hk=2 s=96 d=64 mask=causal lse", target);
    forward.run_and_judge();
    gallery::Call backward("bwd fp32 hq=4 hk=2 s=96 d=64 mask=causal", target, &forward);
    const regard::Plan plan = backward.plan();
    std::printf("tensors are in memory of the %s\n", plan.on_gpu() ? "GPU" : "host");
    backward.run(plan);
    backward.judge();
  });
}
