#include "bindings/adapter_file.h"

#include <memory>
#include <utility>

#include "bindings/conversion.h"
#include "bindings/pool_job.h"
#include "bindings/wrapped.h"

namespace isopro::bindings {
namespace {

// readAdapter(path): Promise<{architecture, name, baseName, baseSha256, invocationTokens,
// modules}>
Napi::Value readAdapter(const Napi::CallbackInfo& info) {
  return PoolJob::run(info.Env(), [path = textOf(info[0])]() -> MakeValue {
    auto file = std::make_shared<training::AdapterFile>(training::readAdapter(path));
    return [file](Napi::Env env) -> Napi::Value {
      Napi::Object object = Napi::Object::New(env);
      object.Set("architecture", file->architecture);
      object.Set("name", file->name);
      object.Set("baseName", file->baseName);
      object.Set("baseSha256", file->baseSha256);
      object.Set("invocationTokens", fromTokens(env, file->invocationTokens));
      object.Set("modules", fromModules(env, file->modules));
      return object;
    };
  });
}

// encodeAdapter(modelPath, modules, baseSha256, invocationTokens): Promise<Buffer>, a GGUF
Napi::Value encodeAdapter(const Napi::CallbackInfo& info) {
  auto modules = std::make_shared<std::vector<training::AdapterModule>>(modulesOf(info[1]));
  return PoolJob::run(
      info.Env(),
      [path = textOf(info[0]), modules, base = textOf(info[2]),
       invocation = tokensOf(info[3])]() -> MakeValue {
        const std::unique_ptr<training::ModelWeights> model = training::loadWeights(path);
        training::fit(*modules, *model);
        auto bytes = std::make_shared<std::vector<std::uint8_t>>(training::encodeAdapter(
            {model->hyper.architecture.name, "", "", base, invocation, std::move(*modules)}));
        return [bytes](Napi::Env env) { return fromBytes(env, bytes); };
      });
}

}  // namespace

std::vector<training::AdapterModule> modulesOf(const Napi::Value& value) {
  return arrayOf(value, [](const Napi::Value& element) {
    const auto object = element.As<Napi::Object>();
    training::AdapterModule module;
    module.name = textOf(object.Get("name"));
    module.rank = integerOf(object.Get("rank"));
    module.in = integerOf(object.Get("inputs"));
    module.out = integerOf(object.Get("outputs"));
    module.scale = floatOf(object.Get("scale"));
    module.a = floatsOf(object.Get("a"));
    module.b = floatsOf(object.Get("b"));
    return module;
  });
}

Napi::Value fromModules(Napi::Env env, const std::vector<training::AdapterModule>& modules) {
  Napi::Array array = Napi::Array::New(env, modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("name", modules[i].name);
    object.Set("rank", static_cast<double>(modules[i].rank));
    object.Set("inputs", static_cast<double>(modules[i].in));
    object.Set("outputs", static_cast<double>(modules[i].out));
    object.Set("scale", static_cast<double>(modules[i].scale));
    object.Set("a", fromFloats(env, modules[i].a));
    object.Set("b", fromFloats(env, modules[i].b));
    array.Set(static_cast<std::uint32_t>(i), object);
  }
  return array;
}

void exportAdapterFile(Napi::Env env, Napi::Object exports) {
  exports.Set("readAdapter", Napi::Function::New(env, asynchronous<readAdapter>, "readAdapter"));
  exports.Set("encodeAdapter",
              Napi::Function::New(env, asynchronous<encodeAdapter>, "encodeAdapter"));
}

}  // namespace isopro::bindings
