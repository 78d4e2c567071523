// A kernel may begin while the one before it ends.
#pragma once

#include "kernels/cuda/pdl.h"
