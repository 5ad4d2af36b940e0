#include "bindings/runtime.h"

#include <optional>

#include <ggml-backend.h>
#include <llama.h>

#include "bindings/errors.h"
#include "inference/llama_call.h"
#include "kernels/gemm.h"
#include "support/cpu.h"
#include "training/trainer.h"

namespace isopro::bindings {
namespace {

// loadBackends(folder): registers every ggml back end of a folder. llama.cpp registers each library
// once, so that calling it again, or loading node-llama-cpp in the same process, adds nothing.
Napi::Value loadBackends(const Napi::CallbackInfo& info) {
  const std::string folder = info[0].As<Napi::String>();
  guarded(info.Env(), [&] {
    callLlama([&] {
      ggml_backend_load_all_from_path(folder.c_str());
      llama_backend_init();
    });
  });
  return info.Env().Undefined();
}

// backends(): [{name, description, type}] of the registered devices.
Napi::Value backends(const Napi::CallbackInfo& info) {
  Napi::Env env = info.Env();
  Napi::Array result = Napi::Array::New(env);
  for (size_t i = 0; i < ggml_backend_dev_count(); ++i) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("name", ggml_backend_dev_name(device));
    entry.Set("description", ggml_backend_dev_description(device));
    const auto type = ggml_backend_dev_type(device);
    entry.Set("type", type == GGML_BACKEND_DEVICE_TYPE_CPU   ? "cpu"
                      : type == GGML_BACKEND_DEVICE_TYPE_GPU ? "gpu"
                                                             : "other");
    result.Set(static_cast<uint32_t>(i), entry);
  }
  return result;
}

// processorFeatures(): {name: value} of the instruction sets that the loaded CPU back end was
// compiled for.
Napi::Value processorFeatures(const Napi::CallbackInfo& info) {
  Napi::Object result = Napi::Object::New(info.Env());
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return result;
  ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(device);
  auto features = reinterpret_cast<ggml_backend_get_features_t>(
      ggml_backend_reg_get_proc_address(registry, "ggml_backend_get_features"));
  if (features == nullptr) return result;
  for (const ggml_backend_feature* feature = features(registry); feature->name != nullptr;
       ++feature) {
    result.Set(feature->name, feature->value);
  }
  return result;
}

// physicalCores(): as loadModel's default of threads.
Napi::Value countPhysicalCores(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), physicalCores());
}

// bf16Speed(): how many times as fast as in f32 the trainer multiplies in bf16, by processor time
// of a product of 512 x 512 x 512 on one thread; null where this processor does not.
Napi::Value measureBf16Speed(const Napi::CallbackInfo& info) {
  const std::optional<double> speed = kernels::bf16Speed();
  return speed ? Napi::Number::New(info.Env(), *speed) : info.Env().Null();
}

}  // namespace

void exportRuntime(Napi::Env env, Napi::Object exports) {
  exports.Set("llamaRelease", Napi::String::New(env, ISOPRO_LLAMA_RELEASE));
  exports.Set("loadBackends", Napi::Function::New(env, loadBackends, "loadBackends"));
  exports.Set("backends", Napi::Function::New(env, backends, "backends"));
  exports.Set("processorFeatures",
              Napi::Function::New(env, processorFeatures, "processorFeatures"));
  exports.Set("multipliesBf16",
              Napi::Boolean::New(env, training::available(training::Precision::bf16)));
  exports.Set("bf16Speed", Napi::Function::New(env, measureBf16Speed, "bf16Speed"));
  exports.Set("physicalCores", Napi::Function::New(env, countPhysicalCores, "physicalCores"));
}

}  // namespace isopro::bindings
