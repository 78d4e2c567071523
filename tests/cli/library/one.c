/* one PROBLEM...: calls the library with the namespace te. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <te_regard.h>

#define N(name) te_##name
#define C(name) TE_##name
#include "program.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) te_call(argv[i]);
  return 0;
}
