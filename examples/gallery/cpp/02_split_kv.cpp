// One query row against many keys: parts of the keys are computed side by side, and a second stage merges
// them.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* splits : {"1", "4"}) {
      gallery::Call call(std::string("fwd fp32 hq=8 hk=2 sq=1 sk=2048 d=64 splits=") + splits, target);
      const regard::Plan plan = call.plan();
      int stages = 0;
      const std::string json = plan.json();
      for (std::size_t at = 0; (at = json.find("\"grid\"", at)) != std::string::npos; ++at) ++stages;
      std::printf("splits=%s: stages: %d\n", splits, stages);
      call.run(plan);
      call.judge();
    }
  });
}
