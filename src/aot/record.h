// The record of a program: the problems that it planned, as REGARD_RECORD writes them (engine/record.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/target.h"

namespace regard::aot {

struct Record {
  struct Line {
    const Target* target;
    Problem problem;
    int number;
  };
  std::vector<Line> lines;  ///< each problem of a target once, although several processes may have written it
  std::vector<std::string> left_out;  ///< sentences about incomplete lines, whose writer ended
};

/// One line each, "cpu-avx2 | fwd bf16 b=1 ..."; empty lines and those that begin with "#" are ignored. Any
/// other line is an error with its number.
Result<Record> parse_record(std::string_view text, std::string_view file);
Result<Record> read_record(const std::string& path);

}  // namespace regard::aot
