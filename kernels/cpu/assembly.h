// Instructions of one kind of processor. `if constexpr` leaves out branches for other targets, but clang++
// reads the operands of `asm` in them too, and refuses registers that its processor does not have.
#pragma once

#if defined(__x86_64__)
#define REGARD_X86_ASM(...) asm(__VA_ARGS__)
#else
#define REGARD_X86_ASM(...) static_cast<void>(0)
#endif

#if defined(__aarch64__)
#define REGARD_ARM_ASM(...) asm(__VA_ARGS__)
#define REGARD_VECTOR_RESULT "=w"  // the constraint of a result in a vector register
#else
#define REGARD_ARM_ASM(...) static_cast<void>(0)
#define REGARD_VECTOR_RESULT "=v"
#endif
