// NativeTrainer: argument reading and one job a call. src/engine/trainer.ts has checked every
// argument's type before it arrives here; values that only the model can judge are checked in
// native/training.
#pragma once

#include <napi.h>

namespace isopro::bindings {

void exportTrainer(Napi::Env env, Napi::Object exports);

}  // namespace isopro::bindings
