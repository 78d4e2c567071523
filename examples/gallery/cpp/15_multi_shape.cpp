// Many shapes, one kernel: batch, heads and lengths are numbers that are passed to it.
#include "gallery.h"

int main(int argc, char** argv) {
  return gallery::main(argc, argv, [](const std::string& target) {
    for (const char* shape :
         {"b=1 h=4 s=64", "b=2 hq=8 hk=2 sq=77 sk=130", "b=3 hq=4 hk=1 s=200", "b=1 h=16 sq=33 sk=257"}) {
      gallery::Call(std::string("fwd fp32 d=64 mask=causal ") + shape, target).run_and_judge();
    }
  });
}
