// Attributes that control inlining and optimization.
#pragma once

/// For code that runs once per tile or step, or rarely: one large function takes longer to compile than its
/// parts.
#define REGARD_NOINLINE __attribute__((noinline))

/// For loops whose sums or vectors are kept in registers: g++ splits their arrays into registers only from
/// -O2 on, and some loops are slower without bit-ccp. The quick options (compile/quick_options.cpp) leave
/// out both.
#ifdef __clang__
#define REGARD_OPTIMIZE REGARD_NOINLINE
#else
#define REGARD_OPTIMIZE REGARD_NOINLINE __attribute__((optimize("O2", "tree-bit-ccp")))
#endif
