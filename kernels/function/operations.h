// What a function of the score or the mask may compute: the names that the host and kernels share.
#pragma once

namespace regard::function {

/// In the order in which they are converted where types are mixed.
enum class Type : unsigned char { boolean, integer, real };

/// X(name, text, operands, typing, level, commutes)
#define REGARD_FUNCTION_OPERATIONS(X)                    \
  X(logical_or, "||", 2, logical, either, true)          \
  X(logical_and, "&&", 2, logical, both, true)           \
  X(less, "<", 2, compared, comparison, false)           \
  X(less_equal, "<=", 2, compared, comparison, false)    \
  X(greater, ">", 2, compared, comparison, false)        \
  X(greater_equal, ">=", 2, compared, comparison, false) \
  X(equal, "==", 2, compared, comparison, true)          \
  X(not_equal, "!=", 2, compared, comparison, true)      \
  X(bit_or, "|", 2, bitwise, bit_or, true)               \
  X(bit_xor, "^", 2, bitwise, bit_xor, true)             \
  X(bit_and, "&", 2, bitwise, bit_and, true)             \
  X(shift_left, "<<", 2, integer, shift, false)          \
  X(shift_right, ">>", 2, integer, shift, false)         \
  X(add, "+", 2, numeric, sum, true)                     \
  X(subtract, "-", 2, numeric, sum, false)               \
  X(multiply, "*", 2, numeric, product, true)            \
  X(divide, "/", 2, real, product, false)                \
  X(floor_divide, "//", 2, numeric, product, false)      \
  X(modulo, "%", 2, numeric, product, false)             \
  X(negate, "-", 1, numeric, prefix, false)              \
  X(bit_not, "~", 1, bitwise, prefix, false)             \
  X(logical_not, "!", 1, logical, prefix, false)         \
  X(where, "where", 3, chosen, call, false)              \
  X(min, "min", 2, numeric, call, true)                  \
  X(max, "max", 2, numeric, call, true)                  \
  X(abs, "abs", 1, numeric, call, false)                 \
  X(sign, "sign", 1, numeric, call, false)               \
  X(floor, "floor", 1, rounded, call, false)             \
  X(ceil, "ceil", 1, rounded, call, false)               \
  X(round, "round", 1, rounded, call, false)             \
  X(to_real, "float", 1, to_real, call, false)           \
  X(to_integer, "int", 1, to_integer, call, false)       \
  X(exp, "exp", 1, real, call, false)                    \
  X(exp2, "exp2", 1, real, call, false)                  \
  X(log, "log", 1, real, call, false)                    \
  X(log2, "log2", 1, real, call, false)                  \
  X(tanh, "tanh", 1, real, call, false)                  \
  X(sigmoid, "sigmoid", 1, real, call, false)            \
  X(sqrt, "sqrt", 1, real, call, false)                  \
  X(rsqrt, "rsqrt", 1, real, call, false)                \
  X(sin, "sin", 1, real, call, false)                    \
  X(cos, "cos", 1, real, call, false)                    \
  X(pow, "pow", 2, real, call, false)

enum class Operation : unsigned char {
#define REGARD_ENUMERATOR(name, ...) name,
  REGARD_FUNCTION_OPERATIONS(REGARD_ENUMERATOR)
#undef REGARD_ENUMERATOR
};

/// X(name, meaning): what a function knows about a place in the score matrix, all int32 but the score.
#define REGARD_FUNCTION_VARIABLES(X)                                                     \
  X(s, "the score, in fp32")                                                             \
  X(b, "the sequence")                                                                   \
  X(h, "the query head")                                                                 \
  X(hk, "the head of K and V")                                                           \
  X(q, "the row within its sequence")                                                    \
  X(kv, "the key within its sequence")                                                   \
  X(p, "the row's place among the keys if the last row is at the last key, q + sk - sq") \
  X(sq, "the rows of the sequence")                                                      \
  X(sk, "the keys of the sequence")                                                      \
  X(tq, "the row's number over all sequences")                                           \
  X(tk, "the key's number over all sequences")

enum class Variable : unsigned char {
#define REGARD_ENUMERATOR(name, ...) name,
  REGARD_FUNCTION_VARIABLES(REGARD_ENUMERATOR)
#undef REGARD_ENUMERATOR
};

/// What a node of a function is.
enum class Kind : unsigned char {
  variable,   ///< which: a Variable
  number,     ///< which: a number that the caller gives at run time
  load,       ///< which: a captured tensor; operands: its indices
  operation,  ///< which: an Operation
  constant,   ///< bits
};

}  // namespace regard::function
