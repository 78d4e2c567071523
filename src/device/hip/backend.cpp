#include "device/hip/hip.h"

namespace regard::hip {

constinit const gpu::Backend backend = {
    .kind = "hip",
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
    .number_of = nullptr,  // what ROCm 7 has, hipStreamGetId, does not promise that a number is never reused
    .device_of = device_of,
    .allocate = allocate,
    .release = release,
    .allocate_ordered = allocate_ordered,
    .release_ordered = release_ordered,
    .copy = copy,
    .clear = clear,
    .encode = nullptr,
    .counters = nullptr,
};

}  // namespace regard::hip
