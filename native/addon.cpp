// Exports only: each class or function lives in bindings/.
#include <napi.h>

#include "bindings/adapter_file.h"
#include "bindings/bench.h"
#include "bindings/environment.h"
#include "bindings/inspection.h"
#include "bindings/model.h"
#include "bindings/model_file.h"
#include "bindings/model_trial.h"
#include "bindings/runtime.h"
#include "bindings/trainer.h"

namespace {

Napi::Object initialise(Napi::Env env, Napi::Object exports) {
  isopro::bindings::Environment::create(env);
  isopro::bindings::exportRuntime(env, exports);
  isopro::bindings::exportModel(env, exports);
  isopro::bindings::exportInspection(env, exports);
  isopro::bindings::exportAdapterFile(env, exports);
  isopro::bindings::exportModelFile(env, exports);
  isopro::bindings::exportModelTrial(env, exports);
  isopro::bindings::exportTrainer(env, exports);
  isopro::bindings::exportBench(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(isopro_native, initialise)
