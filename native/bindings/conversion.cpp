#include "bindings/conversion.h"

#include <algorithm>

namespace isopro::bindings {

std::vector<Token> tokensOf(const Napi::Value& value) {
  return elementsOf<Napi::Int32Array, Token>(value);
}
std::vector<float> floatsOf(const Napi::Value& value) {
  return elementsOf<Napi::Float32Array, float>(value);
}

std::uint64_t seedOf(const Napi::Value& value) {
  bool lossless = false;
  return value.As<Napi::BigInt>().Uint64Value(&lossless);
}

int intOf(const Napi::Value& value) { return value.As<Napi::Number>().Int32Value(); }
std::int64_t integerOf(const Napi::Value& value) { return value.As<Napi::Number>().Int64Value(); }
bool truthOf(const Napi::Value& value) { return value.As<Napi::Boolean>().Value(); }
float floatOf(const Napi::Value& value) { return value.As<Napi::Number>().FloatValue(); }
std::string textOf(const Napi::Value& value) { return value.As<Napi::String>().Utf8Value(); }

CancelFlag flagOf(const Napi::Value& value) {
  return Cancellation::Unwrap(value.As<Napi::Object>())->flag();
}

SamplingSettings samplingOf(const Napi::Object& object) {
  SamplingSettings sampling;
  sampling.temperature = floatOf(object.Get("temperature"));
  sampling.topK = intOf(object.Get("topK"));
  sampling.topP = floatOf(object.Get("topP"));
  sampling.minP = floatOf(object.Get("minP"));
  sampling.repeatPenalty = floatOf(object.Get("repeatPenalty"));
  sampling.repeatWindow = intOf(object.Get("repeatWindow"));
  sampling.presencePenalty = floatOf(object.Get("presencePenalty"));
  sampling.frequencyPenalty = floatOf(object.Get("frequencyPenalty"));
  const std::vector<Token> biased = tokensOf(object.Get("biasedTokens"));
  const std::vector<float> biases = floatsOf(object.Get("biases"));
  for (size_t i = 0; i < biased.size(); ++i) sampling.logitBias.emplace_back(biased[i], biases[i]);
  sampling.topLogProbabilities = intOf(object.Get("topLogprobs"));
  return sampling;
}

ReplyLimits limitsOf(const Napi::Object& object) {
  ReplyLimits limits;
  limits.maxTokens = intOf(object.Get("maxTokens"));
  limits.minTokens = intOf(object.Get("minTokens"));
  limits.stopStrings = arrayOf(object.Get("stopStrings"), textOf);
  limits.stopTokens = tokensOf(object.Get("stopTokens"));
  limits.stopBefore = textOf(object.Get("stopBefore"));
  limits.ignoreEndOfSequence = truthOf(object.Get("ignoreEndOfSequence"));
  return limits;
}

RolloutRequest requestOf(const Napi::Object& object) {
  RolloutRequest request;
  request.prompts = arrayOf(object.Get("prompts"), [](const Napi::Value& value) {
    const auto prompt = value.As<Napi::Object>();
    return RolloutPrompt{tokensOf(prompt.Get("tokens")), arrayOf(prompt.Get("seeds"), seedOf)};
  });
  request.sampling = samplingOf(object.Get("sampling").As<Napi::Object>());
  request.limits = limitsOf(object);
  request.grammar = textOf(object.Get("grammar"));
  request.boundary = intOf(object.Get("boundary"));
  request.cellBudget = intOf(object.Get("cellBudget"));
  request.maxSequences = intOf(object.Get("maxSequences"));
  return request;
}

Branch branchOf(const Napi::Value& value) {
  const auto object = value.As<Napi::Object>();
  return {intOf(object.Get("at")), tokensOf(object.Get("tokens")), intOf(object.Get("from"))};
}

Napi::Value fromTokens(Napi::Env env, const std::vector<Token>& tokens) {
  Napi::Int32Array array = Napi::Int32Array::New(env, tokens.size());
  std::copy(tokens.begin(), tokens.end(), array.Data());
  return array;
}

Napi::Value fromTexts(Napi::Env env, const std::vector<std::string>& texts) {
  Napi::Array array = Napi::Array::New(env, texts.size());
  for (std::uint32_t i = 0; i < texts.size(); ++i) array.Set(i, texts[i]);
  return array;
}

Napi::Value fromFloats(Napi::Env env, const std::vector<float>& values) {
  Napi::Float32Array array = Napi::Float32Array::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

Napi::Value fromBytes(Napi::Env env, const std::shared_ptr<std::vector<std::uint8_t>>& bytes) {
  auto held = std::make_unique<std::shared_ptr<std::vector<std::uint8_t>>>(bytes);
  const auto buffer = Napi::Buffer<std::uint8_t>::NewOrCopy(
      env, bytes->data(), bytes->size(),
      [](Napi::Env, std::uint8_t*, std::shared_ptr<std::vector<std::uint8_t>>* owner) {
        delete owner;
      },
      held.get());
  held.release();
  return buffer;
}

Napi::Value fromHalves(Napi::Env env, const std::vector<std::uint16_t>& values) {
  Napi::Uint16Array array = Napi::Uint16Array::New(env, values.size());
  std::copy(values.begin(), values.end(), array.Data());
  return array;
}

Napi::Value fromChances(Napi::Env env, const std::vector<TokenChance>& chances) {
  Napi::Array array = Napi::Array::New(env, chances.size());
  for (size_t i = 0; i < chances.size(); ++i) {
    Napi::HandleScope scope(env);
    Napi::Object chance = Napi::Object::New(env);
    chance.Set("tokenId", chances[i].token);
    chance.Set("logprob", chances[i].logProbability);
    array.Set(static_cast<std::uint32_t>(i), chance);
  }
  return array;
}

Napi::Value fromChances(Napi::Env env, const std::vector<std::vector<TokenChance>>& rows) {
  Napi::Array array = Napi::Array::New(env, rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    array.Set(static_cast<std::uint32_t>(i), fromChances(env, rows[i]));
  return array;
}

Napi::Object fromReply(Napi::Env env, const Reply& reply) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("tokens", fromTokens(env, reply.tokens));
  object.Set("logProbabilities", fromFloats(env, reply.logProbabilities));
  object.Set("sampledLogProbabilities", fromFloats(env, reply.sampledLogProbabilities));
  if (!reply.top.empty()) object.Set("top", fromChances(env, reply.top));
  object.Set("text", reply.text);
  object.Set("finish", reply.finish == Finish::kStop     ? "stop"
                       : reply.finish == Finish::kLength ? "length"
                                                         : "aborted");
  if (reply.notActivated) object.Set("notActivated", true);
  return object;
}

Napi::Value fromRollout(Napi::Env env, const Rollout& rollout) {
  Napi::Object object = fromReply(env, rollout);
  object.Set("prompt", rollout.prompt);
  object.Set("sample", rollout.sample);
  object.Set("seed", Napi::BigInt::New(env, rollout.seed));
  object.Set("boundary", rollout.boundary.empty() ? env.Null() : fromHalves(env, rollout.boundary));
  return object;
}

Napi::Value fromScores(Napi::Env env, const std::vector<TokenScores>& scores) {
  Napi::Array array = Napi::Array::New(env, scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    Napi::HandleScope scope(env);
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("logProbabilities", fromFloats(env, scores[i].logProbabilities));
    entry.Set("ranks", fromTokens(env, scores[i].ranks));
    entry.Set("top", fromChances(env, scores[i].top));
    array.Set(static_cast<std::uint32_t>(i), entry);
  }
  return array;
}

Napi::Value fromBranchScores(Napi::Env env, const BranchScores& scored) {
  const auto cost = [env](const Evaluated& of) {
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("tokens", of.tokens);
    entry.Set("time", fromStageTime(env, of.time));
    return entry;
  };
  Napi::Array logProbabilities = Napi::Array::New(env, scored.scores.size());
  for (size_t i = 0; i < scored.scores.size(); ++i) {
    logProbabilities.Set(static_cast<std::uint32_t>(i),
                         fromFloats(env, scored.scores[i].logProbabilities));
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("logProbabilities", logProbabilities);
  object.Set("trunk", cost(scored.trunk));
  object.Set("branches", cost(scored.branches));
  object.Set("repeatedTokens", scored.repeatedTokens);
  return object;
}

Napi::Value fromStageTime(Napi::Env env, const StageTime& time) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("seconds", static_cast<double>(time.wall) * 1e-9);
  object.Set("processorSeconds", static_cast<double>(time.processor) * 1e-9);
  return object;
}

Napi::Value fromProgress(Napi::Env env, const RolloutProgress& progress) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("finished", progress.finished);
  object.Set("total", progress.total);
  object.Set("promptTokens", static_cast<double>(progress.promptTokens));
  object.Set("sampledTokens", static_cast<double>(progress.sampledTokens));
  object.Set("live", progress.live);
  object.Set("threads", progress.threads);
  object.Set("prefill", fromStageTime(env, progress.prefill));
  object.Set("decode", fromStageTime(env, progress.decode));
  object.Set("draw", fromStageTime(env, progress.draw));
  return object;
}

}  // namespace isopro::bindings
