#define REGARD_SYMBOL kernel
#include "kernels/cpu/.cpp"
