#include "words.h"

#include <algorithm>
#include <charconv>

#include "refusal.h"

namespace calls {
namespace {

enum { no_mask, mask_top_left, mask_bottom_right, window_generic };

}  // namespace

std::string word(const char* name, std::int64_t value) {
  return std::string(" ") + name + "=" + std::to_string(value);
}

std::string word(const char* name, float value) {
  char digits[32];
  return std::string(" ") + name + "=" + std::string(digits, std::to_chars(digits, digits + 32, value).ptr);
}

std::string mask_words(int mask_type, std::int64_t left, std::int64_t right, std::int64_t sink_tokens) {
  left = std::max<std::int64_t>(left, -1);
  right = std::max<std::int64_t>(right, -1);
  const std::string window = std::to_string(left) + "," + std::to_string(right);
  const bool unbounded = left < 0 && right < 0;
  if (mask_type == no_mask && !unbounded) {
    refuse(TE_REGARD_INVALID,
           "no_mask has no diagonal for the window (" + window +
               "); give mask_top_left or mask_bottom_right with it, or the window (-1,-1)");
  }
  if (mask_type == no_mask && sink_tokens != 0) {
    refuse(TE_REGARD_INVALID,
           "no_mask has no window that sink_size=" + std::to_string(sink_tokens) +
               " keys could stay visible beside; give sink_size 0, or a mask and a window");
  }
  if (mask_type == window_generic) {
    refuse(TE_REGARD_REFUSED,
           "window_generic is not taken; give mask_top_left or mask_bottom_right, which take a window too");
  }
  if (mask_type < no_mask || mask_type > window_generic)
    refuse(TE_REGARD_INVALID, "mask type " + std::to_string(mask_type) + " is none; they are 0 to 3");
  if (unbounded) return "";
  const bool top_left = mask_type == mask_top_left;
  if (left < 0 && right == 0) return top_left ? " mask=causal_top_left" : " mask=causal";
  const std::string sink = left >= 0 && sink_tokens != 0 ? ",sink=" + std::to_string(sink_tokens) : "";
  return " mask=window:" + window + (top_left ? ",top_left" : "") + sink;
}

void require_alibi(int mask_type, bool square) {
  if (mask_type != mask_top_left || square) return;
  refuse(TE_REGARD_REFUSED,
         "ALiBi from the top left is not taken where there may be more keys than queries, or fewer; give "
         "mask_bottom_right, or as many keys as queries");
}

}  // namespace calls
