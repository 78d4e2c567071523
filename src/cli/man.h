#pragma once

#include <string>

namespace regard::cli {

/// The man page of the command, in roff.
std::string man_page();

}  // namespace regard::cli
