// What the compiler is to call and not to inline.
#pragma once

/// For what runs once per tile or step, or seldom: one large function takes longer to compile than its parts.
#define REGARD_NOINLINE __attribute__((noinline))

/// For loops whose sums or vectors live in registers: g++ takes their arrays apart only from -O2 on, and some
/// are slower without bit-ccp. Quick options (compile/quick_options.cpp) leave out both.
#ifdef __clang__
#define REGARD_OPTIMIZE REGARD_NOINLINE
#else
#define REGARD_OPTIMIZE REGARD_NOINLINE __attribute__((optimize("O2", "tree-bit-ccp")))
#endif
