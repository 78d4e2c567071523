/* three PROBLEM...: calls two namespaces and the plain library in one program, each through its own header.
 */
#include <acme_regard.h>
#include <regard/regard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <te_regard.h>

#define N(name) te_##name
#define C(name) TE_##name
#include "program.h"
#define N(name) acme_##name
#define C(name) ACME_##name
#include "program.h"
#define N(name) name
#define C(name) name
#include "program.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    te_call(argv[i]);
    acme_call(argv[i]);
    call(argv[i]);
  }
  return 0;
}
