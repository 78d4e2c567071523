#include "cli/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/html.h"

namespace regard::cli {
namespace {

constexpr double left = 70, top = 20, width = 560, height = 280;
constexpr const char* colors[] = {"#d1495b", "#30638e", "#5b8e30", "#6f4e9c",
                                  "#e7a977", "#8d96a3", "#00798c", "#c08552"};

const char* color_of(std::size_t i) {
  return colors[i % std::size(colors)];
}

std::string text_at(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escaped(text));
}

/// Round numbers from 0 to at least `most`.
std::vector<double> ticks_to(double most) {
  if (!(most > 0)) most = 1;
  double step = std::pow(10, std::floor(std::log10(most)));
  for (const double factor : {0.1, 0.2, 0.5, 1.0}) {
    if (most / (step * factor) > 7) continue;
    step *= factor;
    break;
  }
  std::vector<double> ticks;
  for (int i = 0; ticks.empty() || ticks.back() < most; ++i) ticks.push_back(step * i);
  return ticks;
}

std::string svg(double total_width, double total_height, const std::string& content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" "
      "role=\"img\">\n{2}</svg>\n",
      total_width, total_height, content);
}

}  // namespace

std::string line_chart(const std::string& x_name, const std::string& y_name, std::vector<Curve> curves) {
  std::set<double> lengths;
  double most = 0;
  for (Curve& curve : curves) {
    std::ranges::sort(curve.points);
    for (const auto& [x, y] : curve.points) lengths.insert(x), most = std::max(most, y);
  }
  if (lengths.empty()) return "";
  const std::vector<double> ticks = ticks_to(most);
  const double first = std::log2(*lengths.begin()), last = std::log2(*lengths.rbegin());
  const auto across = [&](double x) {
    return last > first ? left + width * (std::log2(x) - first) / (last - first) : left + width / 2;
  };
  const auto down = [&](double y) { return top + height * (1 - y / ticks.back()); };

  std::string parts;
  for (const double tick : ticks) {
    parts += fmt::format("<path d=\"M{:.1f} {:.1f}h{:.1f}\" stroke=\"#e1e5ea\"/>\n", left, down(tick), width);
    parts += text_at(left - 8, down(tick) + 4, fmt::format("{:g}", tick), "end");
  }
  double labelled = -100;
  for (const double length : lengths) {
    if (across(length) - labelled < 36) continue;  // labels must not overlap
    labelled = across(length);
    parts += text_at(labelled, top + height + 18, fmt::format("{:g}", length));
  }
  parts += text_at(left + width / 2, top + height + 38, x_name);
  parts += fmt::format(
      "<text x=\"16\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {0:.1f})\">{1}</text>\n",
      top + height / 2, escaped(y_name));
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const Curve& curve = curves[i];
    std::string path;
    for (const auto& [x, y] : curve.points)
      path += fmt::format("{}{:.2f} {:.2f}", path.empty() ? "M" : "L", across(x), down(y));
    parts +=
        fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, color_of(i));
    for (const auto& [x, y] : curve.points) {
      parts += fmt::format(
          "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.5\" fill=\"{}\"><title>{}: {:g}, "
          "{:.4g}</title></circle>\n",
          across(x), down(y), color_of(i), escaped(curve.name), x, y);
    }
    const double y = top + 8 + 20 * static_cast<double>(i);
    parts += fmt::format("<path d=\"M{:.1f} {:.1f}h18\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                         left + width + 18, y, color_of(i));
    parts += text_at(left + width + 42, y + 4, curve.name, "start");
  }
  const double names = 20 * static_cast<double>(curves.size()) + top;
  return svg(left + width + 260, std::max(top + height + 50, names), parts);
}

std::string bar_chart(const std::string& limit_name, double limit, const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  constexpr double names = 260, row = 24;
  double most = limit * 1.1;
  for (const Bar& bar : bars)
    if (std::isfinite(bar.value)) most = std::max(most, bar.value);
  const double rows = row * static_cast<double>(bars.size());
  std::string parts;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const Bar& bar = bars[i];
    const double y = top + row * static_cast<double>(i);
    const double long_as = std::isfinite(bar.value) ? std::max(bar.value, 0.0) / most * width : width;
    parts += text_at(names - 8, y + 15, bar.name, "end");
    parts += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"16\" fill=\"{}\"><title>{}: "
        "{:.4g}</title></rect>\n",
        names, y + 3, long_as, bar.value <= limit ? "#30638e" : "#d1495b", escaped(bar.name), bar.value);
  }
  const double at = names + limit / most * width;
  parts += fmt::format("<path d=\"M{:.2f} {:.1f}v{:.1f}\" stroke=\"#1c2430\" stroke-dasharray=\"4 3\"/>\n",
                       at, top, rows);
  parts += text_at(at, top - 6, limit_name);
  return svg(names + width + 40, top + rows + 10, parts);
}

}  // namespace regard::cli
