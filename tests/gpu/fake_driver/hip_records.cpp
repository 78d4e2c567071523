// HIP's kernels, which compute nothing: each module has one, with the module's handle.
#include "device/hip/driver.h"
#include "gpu/fake_driver/host_device.h"

using namespace regard::hip;  // NOLINT: its types are what this library's functions take

namespace {

regard::test::FakeDriver& state = *regard::test::fake_driver();

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Code hipModuleLoadData(ModuleHandle* module, const void*) {
  *module = reinterpret_cast<ModuleHandle>(1 + ++state.loads[regard::test::current_device().of_hip]);
  return success;
}
Code hipModuleUnload(ModuleHandle) {
  return success;
}
Code hipModuleGetFunction(Function* function, ModuleHandle module, const char*) {
  *function = reinterpret_cast<Function>(module);
  return success;
}
Code hipModuleLaunchKernel(Function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                           unsigned, unsigned shared_bytes, Stream stream, void** parameters, void**) {
  ++state.launches;
  if (state.on_launch != nullptr) state.on_launch({blocks, threads, shared_bytes, stream}, parameters);
  return state.launch_code;
}

}  // extern "C"
#pragma GCC visibility pop
