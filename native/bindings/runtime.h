// Facts about the linked llama.cpp and this machine's back ends.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportRuntime(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
