#include "cli/npy.h"

#include "fuzz/fuzz.h"

using namespace regard;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::bytes(data, size);
  if (const Result<ArrayView> array = cli::read_npy(file)) {
    const auto bytes = bytes_of(array->element, array->shape);
    fuzz::demand(bytes && static_cast<std::size_t>(*bytes) == array->bytes.size(),
                 "the shape fills the view");
    fuzz::demand(
        array->bytes.empty() || array->bytes.data() + array->bytes.size() == file.data() + file.size(),
        "the view ends where the file does");
  }
  return 0;
}
