// With descale=columns, how many neighbouring columns of a row share a factor.
#pragma once

namespace regard {

constexpr int factor_columns = 128;

}  // namespace regard
