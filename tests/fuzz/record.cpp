#include "aot/record.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  (void)regard::aot::parse_record(regard::fuzz::text(data, size), "fuzz.txt");
  return 0;
}
