// Gradients of a key/value head are the sums over the query heads that share it.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* heads : {"hq=8 hk=4", "hq=8 hk=2", "hq=8 hk=1"}) {
      const std::string shape = std::string(" fp32 b=2 s=64 d=64 mask=causal ") + heads;
      gallery::Call forward("fwd" + shape + " lse", target);
      forward.run(forward.plan());
      gallery::Call("bwd" + shape, target, &forward).run_and_judge();
    }
  });
}
