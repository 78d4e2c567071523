// What every wrapper of an instruction needs.
#pragma once

#include "kernels/cuda/warp.h"
