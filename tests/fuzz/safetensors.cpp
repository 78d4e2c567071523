#include "arrays/safetensors.h"

#include "fuzz/fuzz.h"

using namespace regard;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto file = fuzz::bytes(data, size);
  const Result<std::vector<NamedArray>> arrays = read_safetensors(file);
  if (!arrays) return 0;
  for (const NamedArray& named : *arrays) {
    const ArrayView& array = named.array;
    if (named.unreadable.empty()) {
      const auto bytes = bytes_of(array.element, array.shape);
      fuzz::demand(bytes && static_cast<std::size_t>(*bytes) == array.bytes.size(),
                   "the shape fills the view");
    }
    fuzz::demand(
        array.bytes.empty() || (array.bytes.data() >= file.data() &&
                                array.bytes.data() + array.bytes.size() <= file.data() + file.size()),
        "the view lies within the file");
  }
  return 0;
}
