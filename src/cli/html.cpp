#include "cli/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace regard::cli {
namespace {

constexpr const char* style = R"(
body { font: 15px/1.45 system-ui, sans-serif; color: #1c2430; background: #fff; max-width: 1500px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em } h2 { font-size: 1.15em; margin: 2em 0 .5em; border-bottom: 1px solid #d5dae1 }
h3 { font-size: 1em; margin: 1.4em 0 .3em; font-weight: 600 }
table { border-collapse: collapse; margin: .5em 0 } div.wide { overflow-x: auto }
th, td { padding: .2em .7em; border-bottom: 1px solid #e6e9ee; text-align: left; vertical-align: top }
th { font-weight: 600; color: #4a5568 } th.number, td.number { text-align: right; font-variant-numeric: tabular-nums }
td.number { white-space: nowrap }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #1c2430 }
p.note { color: #4a5568 }
)";

bool is_number(const std::string& text) {
  return !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '-') &&
         text.find_first_not_of("0123456789.e+-% ") == std::string::npos;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  const auto has_numbers = [&](std::size_t column) {
    return std::ranges::all_of(rows.begin() + 1, rows.end(), [column](const std::vector<std::string>& row) {
      return row[column].empty() || is_number(row[column]);
    });
  };
  std::string html = "<div class=\"wide\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    html += "<tr>";
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      const char* const name = i == 0 ? "th" : "td";
      html += fmt::format("<{}{}>{}</{}>", name, has_numbers(column) ? " class=\"number\"" : "",
                          escaped(rows[i][column]), name);
    }
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string html_page(std::string_view title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<title>{}</title>\n<style>{}</style>\n"
      "</head>\n<body>\n<h1>{}</h1>\n{}</body>\n</html>\n",
      escaped(title), style, escaped(title), body);
}

}  // namespace regard::cli
