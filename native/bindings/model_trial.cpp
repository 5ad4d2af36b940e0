#include "bindings/model_trial.h"

#include <string>

#include "bindings/conversion.h"
#include "bindings/pool_job.h"
#include "bindings/wrapped.h"
#include "inference/model_trial.h"
#include "support/process_limits.h"

namespace isopro::bindings {
namespace {

// wantsTrial(path): Promise<boolean>
Napi::Value modelWantsTrial(const Napi::CallbackInfo& info) {
  return PoolJob::run(info.Env(), [path = textOf(info[0])]() -> MakeValue {
    const bool wanted = wantsTrial(path);
    return [wanted](Napi::Env env) { return Napi::Boolean::New(env, wanted); };
  });
}

// tryModel(path, {processorSeconds, bytes, processorExit, memoryExit}): Promise<void>; ends the
// process where it is over a limit.
Napi::Value tryModelFile(const Napi::CallbackInfo& info) {
  const auto object = info[1].As<Napi::Object>();
  const auto numberOf = [&](const char* key) {
    return object.Get(key).As<Napi::Number>().Int64Value();
  };
  const ProcessLimits limits{
      numberOf("processorSeconds") * 1'000'000'000, static_cast<std::uint64_t>(numberOf("bytes")),
      static_cast<int>(numberOf("processorExit")), static_cast<int>(numberOf("memoryExit"))};
  return PoolJob::run(info.Env(), [path = textOf(info[0]), limits]() -> MakeValue {
    limitProcess(limits);
    tryModel(path);
    return [](Napi::Env env) { return env.Undefined(); };
  });
}

}  // namespace

void exportModelTrial(Napi::Env env, Napi::Object exports) {
  exports.Set("trialBytes", Napi::Number::New(env, static_cast<double>(kTrialBytes)));
  exports.Set("wantsTrial", Napi::Function::New(env, asynchronous<modelWantsTrial>, "wantsTrial"));
  exports.Set("tryModel", Napi::Function::New(env, asynchronous<tryModelFile>, "tryModel"));
}

}  // namespace isopro::bindings
