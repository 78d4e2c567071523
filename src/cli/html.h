// Parts of an HTML page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace regard::cli {

/// Text as a page shows it, also between quotes.
std::string escaped(std::string_view text);

/// The first row is the header. Columns with only numbers are aligned to the right.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

/// A whole page, which needs no other file.
std::string html_page(std::string_view title, const std::string& body);

}  // namespace regard::cli
