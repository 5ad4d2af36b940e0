// Token ids of many texts, made on libuv's pool beside whatever the engine does.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <napi.h>

#include "bindings/conversion.h"
#include "bindings/pool_job.h"
#include "inference/model.h"

namespace isopro::bindings {

// tokenizeAll(texts): Promise<Int32Array[]>; no control token is recognised. `alive` holds the
// model until then.
inline Napi::Promise tokenizeAll(const Napi::CallbackInfo& info, const Model& model,
                                 std::shared_ptr<const Model> alive) {
  const auto given = info[0].As<Napi::Array>();
  std::vector<std::string> texts;
  texts.reserve(given.Length());
  for (std::uint32_t i = 0; i < given.Length(); ++i) texts.push_back(textOf(given.Get(i)));
  return PoolJob::run(info.Env(),
                      [&model, alive = std::move(alive), texts = std::move(texts)]() -> MakeValue {
                        std::vector<std::vector<Token>> all;
                        all.reserve(texts.size());
                        for (const std::string& text : texts)
                          all.push_back(model.tokenize(text, false));
                        return [all = std::move(all)](Napi::Env env) -> Napi::Value {
                          Napi::Array tokens = Napi::Array::New(env, all.size());
                          for (std::uint32_t i = 0; i < all.size(); ++i)
                            tokens.Set(i, fromTokens(env, all[i]));
                          return tokens;
                        };
                      });
}

}  // namespace isopro::bindings
