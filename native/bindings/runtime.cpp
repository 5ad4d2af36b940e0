#include "bindings/runtime.h"

#include <ggml-backend.h>
#include <llama.h>

namespace isopro::bindings {
namespace {

// loadBackends(folder): registers every ggml back end of a folder. llama.cpp registers each library once, so that
// calling it again, or loading node-llama-cpp in the same process, adds nothing.
Napi::Value loadBackends(const Napi::CallbackInfo& info) {
  const std::string folder = info[0].As<Napi::String>();
  ggml_backend_load_all_from_path(folder.c_str());
  llama_backend_init();
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

}  // namespace

void exportRuntime(Napi::Env env, Napi::Object exports) {
  exports.Set("llamaRelease", Napi::String::New(env, ISOPRO_LLAMA_RELEASE));
  exports.Set("loadBackends", Napi::Function::New(env, loadBackends, "loadBackends"));
  exports.Set("backends", Napi::Function::New(env, backends, "backends"));
}

}  // namespace isopro::bindings
