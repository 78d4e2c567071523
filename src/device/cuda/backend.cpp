#include "device/cuda/cuda.h"

namespace regard::cuda {
namespace {

gpu::CountersOfDevices counters{};

}  // namespace

constinit const gpu::Backend backend = {
    .kind = "cuda",
    .devices = devices,
    .current_device = current_device,
    .runs_on = runs_on,
    .enter = enter,
    .leave = leave,
    .check_binary = check_binary,
    .load = load,
    .launch = launch,
    .wait = wait,
    .is_capturing = is_capturing,
    .number_of = number_of,
    .device_of = device_of,
    .allocate = allocate,
    .release = release,
    .allocate_ordered = allocate_ordered,
    .release_ordered = release_ordered,
    .copy = copy,
    .clear = clear,
    .encode = encode,
    .counters = &counters,
};

}  // namespace regard::cuda
