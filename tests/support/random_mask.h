// Masks that are functions of many kinds.
#pragma once

#include <initializer_list>
#include <random>
#include <string>

namespace regard::test {

/// A random mask of all operations on whole numbers.
class RandomMask {
 public:
  explicit RandomMask(unsigned seed) : random_(seed) {}

  std::string condition(int depth) {
    if (depth == 0) return of({"kv<=p", "doc[q]==doc[kv]", "m[q//8,kv//8]", "q!=kv+3", "h==1", "kv<90"});
    switch (pick(6)) {
      case 0:
        return "(" + condition(depth - 1) + "&&" + condition(depth - 1) + ")";
      case 1:
        return "(" + condition(depth - 1) + "||" + condition(depth - 1) + ")";
      case 2:
        return "!(" + condition(depth - 1) + ")";
      case 3:
        return "where(" + condition(0) + "," + condition(depth - 1) + "," + condition(depth - 1) + ")";
      default:
        return "(" + number(depth - 1) + of({"<", "<=", "==", "!=", ">", ">="}) + number(depth - 1) + ")";
    }
  }

 private:
  std::string number(int depth) {
    if (depth == 0)
      return of({"q", "kv", "p", "h", "doc[q]", "doc[kv]", "doc[q-kv]", "7", "64", "-3", "2147483647"});
    const std::string x = number(depth - 1), y = number(depth - 1);
    switch (pick(5)) {
      case 0:
        return of({"abs(", "-(", "~(", "int(h<2)*(", "sign("}) + x + ")";
      case 1:
        return of({"min(", "max("}) + x + "," + y + ")";
      case 2:
        return "where(" + condition(0) + "," + x + "," + y + ")";
      case 3:
        return "(" + x + of({"//", "%", "<<", ">>"}) + of({"8", "64", "5", "-7", "0", y.c_str()}) + ")";
      default:
        return "(" + x + of({"+", "-", "*", "&", "|", "^"}) + y + ")";
    }
  }
  std::string of(std::initializer_list<const char*> some) {
    return *(some.begin() + pick(static_cast<int>(some.size())));
  }
  int pick(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }

  std::mt19937 random_;
};

}  // namespace regard::test
