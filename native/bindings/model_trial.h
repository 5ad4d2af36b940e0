// wantsTrial and tryModel: a file whose architecture has no validator, in a process of its own;
// src/engine/model-trial.ts starts it.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportModelTrial(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
