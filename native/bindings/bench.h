// What only benchmarks call (bench/addon.ts): the yardsticks of native/bench.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportBench(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
