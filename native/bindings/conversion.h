// Values from and to JavaScript. What comes in has been checked in src/engine/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <napi.h>

#include "bindings/call.h"
#include "inference/rollouts.h"
#include "inference/scoring.h"

namespace isopro::bindings {

int intOf(const Napi::Value& value);
std::int64_t integerOf(const Napi::Value& value);
float floatOf(const Napi::Value& value);
bool truthOf(const Napi::Value& value);
std::string textOf(const Napi::Value& value);
std::uint64_t seedOf(const Napi::Value& value);
std::vector<Token> tokensOf(const Napi::Value& value);
// Empty where undefined.
std::vector<float> floatsOf(const Napi::Value& value);
CancelFlag flagOf(const Napi::Value& cancellation);
SamplingSettings samplingOf(const Napi::Object& object);
ReplyLimits limitsOf(const Napi::Object& object);
RolloutRequest requestOf(const Napi::Object& object);
Branch branchOf(const Napi::Value& value);

// A typed array's elements; empty where undefined.
template <typename Array, typename Element>
std::vector<Element> elementsOf(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  const auto array = value.As<Array>();
  return std::vector<Element>(array.Data(), array.Data() + array.ElementLength());
}

// The elements of an array, each read by `read`.
template <typename Read>
auto arrayOf(const Napi::Value& value, Read read) {
  const auto array = value.As<Napi::Array>();
  std::vector<decltype(read(Napi::Value()))> items;
  items.reserve(array.Length());
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    Napi::HandleScope scope(value.Env());
    items.push_back(read(array.Get(i)));
  }
  return items;
}

Napi::Value fromTokens(Napi::Env env, const std::vector<Token>& tokens);
Napi::Value fromTexts(Napi::Env env, const std::vector<std::string>& texts);
Napi::Value fromFloats(Napi::Env env, const std::vector<float>& values);
// The bytes themselves, freed with the JavaScript object; copied only where the runtime forbids
// that.
Napi::Value fromBytes(Napi::Env env, const std::shared_ptr<std::vector<std::uint8_t>>& bytes);
Napi::Value fromHalves(Napi::Env env, const std::vector<std::uint16_t>& values);
// [{tokenId, logprob}], or one such list a token.
Napi::Value fromChances(Napi::Env env, const std::vector<TokenChance>& chances);
Napi::Value fromChances(Napi::Env env, const std::vector<std::vector<TokenChance>>& rows);
Napi::Object fromReply(Napi::Env env, const Reply& reply);
Napi::Value fromRollout(Napi::Env env, const Rollout& rollout);
// {logProbabilities, ranks, top}[]
Napi::Value fromScores(Napi::Env env, const std::vector<TokenScores>& scores);
// {logProbabilities: Float32Array[], trunk, branches, repeatedTokens}, of which two are {tokens,
// time}
Napi::Value fromBranchScores(Napi::Env env, const BranchScores& scored);
// {seconds, processorSeconds}
Napi::Value fromStageTime(Napi::Env env, const StageTime& time);
Napi::Value fromProgress(Napi::Env env, const RolloutProgress& progress);

}  // namespace isopro::bindings
