#include "emulator/numbers.h"

#include <map>

namespace emulator {

const std::vector<float>& numbers_of(regard_dtype dtype) {
  static const auto tables = [] {
    std::map<regard_dtype, std::vector<float>> all;
    for (const regard_dtype type : {REGARD_BF16, REGARD_FP16, REGARD_FP8, REGARD_FP8_E5M2}) {
      const regard::oracle::Format format = regard::oracle::format(type);
      std::vector<float>& numbers = all[type];
      numbers.resize(std::size_t{1} << (1 + format.exponent_bits + format.mantissa_bits));
      for (std::uint32_t bits = 0; bits < numbers.size(); ++bits)
        numbers[bits] = static_cast<float>(regard::oracle::decode_bits(format, bits));
    }
    return all;
  }();
  return tables.at(dtype);
}

}  // namespace emulator
