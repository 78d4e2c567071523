// What the compiler is to call and not to inline.
#pragma once

/// For what runs once per tile or step, or seldom: one large function takes longer to compile than its parts.
#define REGARD_CALLED __attribute__((noinline))
