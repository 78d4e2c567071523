#include "fuzz/fuzz.h"
#include "plan/target.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)regard::parse_target(regard::fuzz::text(data, size), "fuzz.toml");
  return 0;
}
