#include "bindings/bench.h"

#include <memory>
#include <vector>

#include <napi.h>

#include "bench/bare_loop.h"
#include "bench/product_rates.h"
#include "bindings/conversion.h"
#include "bindings/pool_job.h"
#include "bindings/wrapped.h"
#include "support/cpu.h"

namespace isopro::bindings {
namespace {

using bench::ProductRequest;
using ModelHandle = Napi::External<std::shared_ptr<Model>>;

// openModel(path, gpuLayers, kvType): Promise<handle>, freed when it is collected
Napi::Value openModel(const Napi::CallbackInfo& info) {
  const ModelOptions options{info[0].As<Napi::String>().Utf8Value(), intOf(info[1]),
                             info[2].As<Napi::String>().Utf8Value()};
  return PoolJob::run(info.Env(), [options]() -> MakeValue {
    return [model = Model::load(options, {})](Napi::Env env) -> Napi::Value {
      return ModelHandle::New(env, new std::shared_ptr<Model>(model),
                              [](Napi::Env, std::shared_ptr<Model>* held) { delete held; });
    };
  });
}

// bareLoop(handle, prompts: Int32Array[], samples, tokens, threads): Promise<seconds>
Napi::Value bareLoop(const Napi::CallbackInfo& info) {
  std::vector<std::vector<Token>> prompts;
  const auto given = info[1].As<Napi::Array>();
  for (std::uint32_t i = 0; i < given.Length(); ++i) {
    const auto tokens = given.Get(i).As<Napi::Int32Array>();
    prompts.emplace_back(tokens.Data(), tokens.Data() + tokens.ElementLength());
  }
  return PoolJob::run(
      info.Env(),
      [model = *info[0].As<ModelHandle>().Data(), prompts, samples = intOf(info[2]),
       tokens = intOf(info[3]), threads = intOf(info[4])]() -> MakeValue {
        const double seconds = bench::bareDecodeLoop(*model, prompts, samples, tokens, threads);
        return [seconds](Napi::Env env) -> Napi::Value { return Napi::Number::New(env, seconds); };
      });
}

// productRates({op: 'Y' | 'dX', type, rows, columns, tokens, threads, rounds, peers}):
// Promise<{gflops, bf16, toFloat, openblas, ggmlOutProd}>
Napi::Value measureProduct(const Napi::CallbackInfo& info) {
  const auto object = info[0].As<Napi::Object>();
  const auto integer = [&](const char* name) {
    return object.Get(name).As<Napi::Number>().Int64Value();
  };
  ProductRequest request;
  request.transposed = object.Get("op").As<Napi::String>().Utf8Value() == "dX";
  request.type = object.Get("type").As<Napi::String>().Utf8Value();
  request.rows = integer("rows"), request.columns = integer("columns"),
  request.tokens = integer("tokens");
  const auto threads = static_cast<int>(integer("threads"));
  request.threads = threads > 0 ? threads : physicalCores();
  request.rounds = static_cast<int>(integer("rounds"));
  request.peers = object.Get("peers").As<Napi::Boolean>().Value();
  return PoolJob::run(info.Env(), [request]() -> MakeValue {
    return [rates = bench::productRates(request)](Napi::Env env) -> Napi::Value {
      Napi::Object result = Napi::Object::New(env);
      const auto set = [&](const char* name, double rate) {
        result.Set(name, rate > 0 ? Napi::Number::New(env, rate) : env.Null());
      };
      set("gflops", rates.ours);
      set("bf16", rates.bf16);
      set("toFloat", rates.toFloat);
      set("openblas", rates.openBlas);
      set("ggmlOutProd", rates.outProd);
      return result;
    };
  });
}

}  // namespace

void exportBench(Napi::Env env, Napi::Object exports) {
  exports.Set("openModel", Napi::Function::New(env, asynchronous<openModel>, "openModel"));
  exports.Set("bareLoop", Napi::Function::New(env, asynchronous<bareLoop>, "bareLoop"));
  exports.Set("productRates",
              Napi::Function::New(env, asynchronous<measureProduct>, "productRates"));
}

}  // namespace isopro::bindings
