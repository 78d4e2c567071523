// Charts as SVG, inside a page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace regard::cli {

/// Points of one name, joined in the order of x.
struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;
};

/// Curves over lengths, which are spaced by their logarithms; y begins at 0.
std::string line_chart(const std::string& x_name, const std::string& y_name, std::vector<Curve> curves);

struct Bar {
  std::string name;
  double value = 0;  ///< infinity and NaN are as long as the chart is wide
};

/// Horizontal bars, with a line at `limit`; those beyond it are marked.
std::string bar_chart(const std::string& limit_name, double limit, const std::vector<Bar>& bars);

}  // namespace regard::cli
