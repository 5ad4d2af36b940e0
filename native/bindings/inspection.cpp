#include "bindings/inspection.h"

#include <optional>
#include <string>
#include <utility>

#include "bindings/conversion.h"
#include "bindings/pool_job.h"
#include "bindings/wrapped.h"
#include "inference/inspection.h"
#include "support/error.h"
#include "training/model_weights.h"

namespace isopro::bindings {
namespace {

Napi::Value number(Napi::Env env, std::uint64_t value) {
  return Napi::Number::New(env, static_cast<double>(value));
}

template <typename Items, typename Make>
Napi::Array listFrom(Napi::Env env, const Items& items, Make make) {
  Napi::Array array = Napi::Array::New(env, items.size());
  for (std::size_t i = 0; i < items.size(); ++i)
    array.Set(static_cast<std::uint32_t>(i), make(items[i]));
  return array;
}

Napi::Value problemOf(Napi::Env env, const std::optional<Problem>& problem) {
  if (!problem) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("code", codeName(problem->code));
  object.Set("message", problem->message);
  return object;
}

Napi::Value cacheOf(Napi::Env env, const std::optional<CacheShape>& cache) {
  if (!cache) return env.Null();
  Napi::Object object = Napi::Object::New(env);
  object.Set("valuesPerToken", static_cast<double>(cache->valuesPerToken));
  object.Set("stateBytes", static_cast<double>(cache->stateBytes));
  return object;
}

Napi::Object toObject(Napi::Env env, const Inspection& inspection) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("version", inspection.version);
  object.Set("bytes", number(env, inspection.bytes));
  object.Set("kind", inspection.kind);
  object.Set("architecture", inspection.architecture);
  object.Set("name", inspection.modelName);
  object.Set("parameters", number(env, inspection.parameters));
  object.Set("vocabularySize", number(env, inspection.vocabularySize));
  object.Set("types", listFrom(env, inspection.types, [env](const TensorTypeCount& count) {
               Napi::Object entry = Napi::Object::New(env);
               entry.Set("type", count.type);
               entry.Set("tensors", number(env, count.tensors));
               entry.Set("parameters", number(env, count.parameters));
               entry.Set("bytes", number(env, count.bytes));
               entry.Set("kernels", !count.multiplier         ? env.Null()
                                    : count.multiplier->isOwn ? Napi::String::New(env, "own")
                                                              : Napi::String::New(env, "ggml"));
               entry.Set("why", count.multiplier ? Napi::String::New(env, count.multiplier->why)
                                                 : env.Null());
               return entry;
             }));
  object.Set("kvType",
             inspection.kvType.empty() ? env.Null() : Napi::String::New(env, inspection.kvType));
  // Pairs: a file may call a value __proto__.
  object.Set("metadata", listFrom(env, inspection.metadata, [env](const auto& pair) {
               Napi::Array entry = Napi::Array::New(env, 2);
               entry.Set(0U, pair.first);
               entry.Set(1U, pair.second);
               return entry;
             }));
  object.Set("tensors", listFrom(env, inspection.tensors, [env](const TensorSummary& tensor) {
               Napi::Object entry = Napi::Object::New(env);
               entry.Set("name", tensor.name);
               entry.Set("type", tensor.type);
               entry.Set("dimensions",
                         listFrom(env, tensor.dimensions, [env](std::int64_t dimension) {
                           return Napi::Number::New(env, static_cast<double>(dimension));
                         }));
               entry.Set("bytes", number(env, tensor.bytes));
               return entry;
             }));
  object.Set("warnings", fromTexts(env, inspection.warnings));
  object.Set("problem", problemOf(env, inspection.problem));
  object.Set("cache", cacheOf(env, inspection.cache));
  object.Set("evaluatesAlone", inspection.evaluatesAlone);
  return object;
}

// Why the trainer would refuse what inference loads.
std::optional<Problem> trainingProblem(const std::string& path) {
  try {
    training::loadWeights(path);
    return std::nullopt;
  } catch (const Error& error) {
    return Problem{error.code(), error.what()};
  }
}

// inspectModel(path, byLlama): Promise<object>
Napi::Value inspectModel(const Napi::CallbackInfo& info) {
  return PoolJob::run(
      info.Env(),
      [path = info[0].As<Napi::String>().Utf8Value(), byLlama = truthOf(info[1])]() -> MakeValue {
        Inspection inspection = inspect(path, byLlama);
        const bool loads = inspection.kind != "adapter" && !inspection.problem;
        auto training = loads ? trainingProblem(path) : inspection.problem;
        return [inspection = std::move(inspection),
                training = std::move(training)](Napi::Env env) -> Napi::Value {
          Napi::Object object = toObject(env, inspection);
          object.Set("trainingProblem", problemOf(env, training));
          return object;
        };
      });
}

}  // namespace

void exportInspection(Napi::Env env, Napi::Object exports) {
  exports.Set("inspectModel", Napi::Function::New(env, asynchronous<inspectModel>, "inspectModel"));
}

}  // namespace isopro::bindings
