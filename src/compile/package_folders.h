// Where Python's packages lie, some of which bring compilers.
#pragma once

#include <string>
#include <vector>

namespace regard {

/// Sets where the Python that runs in this process has its packages; only the first call counts.
void name_package_folders(std::vector<std::string> folders);

/// Folders of Python packages that belong to this process: those of its Python, and the one that this library
/// is installed in as a package.
std::vector<std::string> package_folders();

}  // namespace regard
