// The command line, declared to CLI11 in one place. This is the only file that knows CLI11.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cli/request.h"

namespace regard::cli {

/// The request: a verb with its options, or text to print (help, version).
std::variant<Request, std::string> parse_command_line(std::vector<std::string> arguments);

/// A verb, as shell completion needs it.
struct VerbInfo {
  std::string name, doc;
  struct Option {
    std::string name, doc;
    bool takes_value = false;
  };
  std::vector<Option> options;
  bool takes_problem = false;
  std::vector<std::string> words;  ///< what else can follow, e.g. the verbs of `cache`
};
std::vector<VerbInfo> verb_table();

}  // namespace regard::cli
