#include "inference/reply.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "support/error.h"

namespace isopro {
namespace {

// Bytes of the text before a last UTF-8 character that is not whole.
size_t wholeCharacters(const std::string& text, size_t end) {
  for (size_t back = 1; back <= std::min<size_t>(3, end); ++back) {
    const auto byte = static_cast<unsigned char>(text[end - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? end - back : end;
  }
  return end;
}

}  // namespace

void ReplyLimits::check(const Model& model) const {
  if (maxTokens < 1) throw Error("INVALID_ARGUMENT", "maxTokens must be at least 1");
  if (minTokens > maxTokens) throw Error("INVALID_ARGUMENT", "minTokens is more than maxTokens");
  model.checkTokens(stopTokens, "stopTokens");
}

void ReplyLimits::checkPrompt(const Model& model, const std::vector<Token>& prompt, const std::string& name, int cells) const {
  if (prompt.empty()) throw Error("INVALID_ARGUMENT", name + " has no tokens");
  model.checkTokens(prompt, name.c_str());
  const int limit = std::min(cells, model.trainedContext());
  const std::int64_t needed = static_cast<std::int64_t>(prompt.size()) + maxTokens;
  if (needed > limit) {
    throw Error("CONTEXT_OVERFLOW", name + " has " + std::to_string(prompt.size()) + " tokens; with maxTokens " +
                                        std::to_string(maxTokens) + " it needs " + std::to_string(needed) + ", more than the context of " +
                                        std::to_string(limit));
  }
}

HeldBack ReplyLimits::heldBack(const Model& model) const {
  HeldBack held{minTokens, {}};
  if (minTokens == 0) return held;
  std::set<Token> ends(stopTokens.begin(), stopTokens.end());
  for (Token token = 0; !ignoreEndOfSequence && token < model.vocabularySize(); ++token) {
    if (llama_vocab_is_eog(model.vocab(), token)) ends.insert(token);
  }
  held.ends.assign(ends.begin(), ends.end());
  return held;
}

bool ReplyLimits::accept(const Model& model, const Sampled& sampled, Reply& reply, size_t& searched) const {
  reply.tokens.push_back(sampled.token);
  reply.logProbabilities.push_back(sampled.logProbability);
  reply.sampledLogProbabilities.push_back(sampled.sampledLogProbability);
  if (!sampled.top.empty()) reply.top.push_back(sampled.top);

  const bool endOfTurn = !ignoreEndOfSequence && llama_vocab_is_eog(model.vocab(), sampled.token);
  const bool stopToken = std::find(stopTokens.begin(), stopTokens.end(), sampled.token) != stopTokens.end();
  reply.finish = Finish::kStop;
  if (endOfTurn || stopToken) return true;
  reply.text += model.piece(sampled.token, false);
  const bool mayEnd = static_cast<int>(reply.tokens.size()) > minTokens;
  if (mayEnd && cutAtStopString(reply.text, searched)) return true;
  searched = reply.text.size();
  reply.finish = Finish::kLength;
  return static_cast<int>(reply.tokens.size()) >= maxTokens;
}

// Cuts the text before the first stop string.
bool ReplyLimits::cutAtStopString(std::string& text, size_t searched) const {
  size_t found = std::string::npos;
  for (const std::string& stop : stopStrings) found = std::min(found, text.find(stop, searched - std::min(searched, stop.size() - 1)));
  if (found == std::string::npos) return false;
  text.resize(found);
  return true;
}

void checkBias(const Model& model, const SamplingSettings& sampling) {
  std::vector<Token> tokens;
  for (const auto& biased : sampling.logitBias) tokens.push_back(biased.first);
  model.checkTokens(tokens, "logitBias");
}

size_t ReplyLimits::settled(const std::string& text) const {
  size_t end = text.size();
  for (const std::string& stop : stopStrings) {
    for (size_t length = std::min(stop.size() - 1, text.size()); length > 0; --length) {
      if (text.compare(text.size() - length, length, stop, 0, length) != 0) continue;
      end = std::min(end, text.size() - length);
      break;
    }
  }
  return wholeCharacters(text, end);
}

}  // namespace isopro
