// NativeModel and NativeAdapter: argument reading, object lifetimes, one job a call.
// src/engine/model.ts has checked every argument's type before it arrives here.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportModel(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
