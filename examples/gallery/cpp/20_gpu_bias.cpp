// A bias that is added to the scores: elementwise with broadcasting, or ALiBi, which is a slope for each
// head.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* bias : {"11", "1h", "b1", "bh", "alibi"}) {
      gallery::Call(std::string("fwd fp32 b=2 h=4 s=80 d=64 bias=") + bias, target).run_and_judge();
    }
  });
}
