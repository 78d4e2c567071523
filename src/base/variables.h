// The environment variables of this process: read here and nowhere else.
#pragma once

#include <string_view>
#include <vector>

namespace regard {

/// Whether this program has rights that its user lacks (setuid, setgid, file capabilities). The variables are
/// that user's, and would choose what is executed and written with those rights: there are none then.
bool is_privileged();

/// The value; null where there is none.
const char* variable(const char* name);

/// All of them, as "NAME=value".
std::vector<std::string_view> variables();

/// Whether there are some whose names begin so, which a privileged program does not see.
bool ignores_variables(std::string_view prefix);

}  // namespace regard
