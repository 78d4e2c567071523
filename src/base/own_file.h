// Where this code lies.
#pragma once

#include <string>

namespace regard {

/// The file that this code was loaded from, a library or a program; without links, where that can be found
/// out. known.
std::string own_file();

}  // namespace regard
