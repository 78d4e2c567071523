#include "aot/manifest.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)regard::aot::parse_manifest(regard::fuzz::text(data, size), "/dev/null/fuzz.toml");
  return 0;
}
