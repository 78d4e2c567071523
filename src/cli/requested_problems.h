// The problems that the user gives to `bench` and `tune`.
#pragma once

#include <string>
#include <vector>

#include "cli/request.h"

namespace regard::cli {

/// Those of the command line, where several are quoted, one per argument, and unquoted words are one problem;
/// and those of the file --problems, one per line, where empty lines and lines that start with # are skipped.
std::vector<std::string> requested_problems(const Request&);

}  // namespace regard::cli
