// inspectModel(path): what a GGUF file says about itself; src/engine/inspect.ts describes the
// result.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportInspection(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
