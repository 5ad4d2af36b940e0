// Timed products for `bench kernels` and `bench train`.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportKernelBench(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
