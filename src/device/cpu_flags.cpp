#include <fstream>
#include <sstream>
#include <vector>

#include "base/forever.h"
#include "device/cpu.h"

namespace regard::cpu {
namespace {

std::vector<std::string> read_flags() {
  std::vector<std::string> words;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;  // x86, Arm
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::istringstream rest(line.substr(colon + 1));
    for (std::string word; rest >> word;) words.push_back(word);
    break;  // the first processor speaks for all
  }
  return words;
}

}  // namespace

std::span<const std::string> cpu_flags() {
  return forever<read_flags>();
}

}  // namespace regard::cpu
