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
  if (maxTokens < 1) throw Error(ErrorCode::invalidArgument, "maxTokens must be at least 1");
  if (minTokens > maxTokens)
    throw Error(ErrorCode::invalidArgument, "minTokens is more than maxTokens");
  model.checkTokens(stopTokens, "stopTokens");
}

void ReplyLimits::checkPrompt(const Model& model, const std::vector<Token>& prompt,
                              const std::string& name, int cells) const {
  if (prompt.empty()) throw Error(ErrorCode::invalidArgument, name + " has no tokens");
  model.checkTokens(prompt, name.c_str());
  const int limit = std::min(cells, model.trainedContext());
  const std::int64_t needed = static_cast<std::int64_t>(prompt.size()) + maxTokens;
  if (needed > limit) {
    throw Error(ErrorCode::contextOverflow,
                name + " has " + std::to_string(prompt.size()) + " tokens; with maxTokens " +
                    std::to_string(maxTokens) + " it needs " + std::to_string(needed) +
                    ", more than the context of " + std::to_string(limit));
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

bool ReplyLimits::accept(const Model& model, const Sampled& sampled, Reply& reply,
                         size_t& searched) const {
  reply.tokens.push_back(sampled.token);
  reply.logProbabilities.push_back(sampled.logProbability);
  reply.sampledLogProbabilities.push_back(sampled.sampledLogProbability);
  if (!sampled.top.empty()) reply.top.push_back(sampled.top);

  const bool endOfTurn = !ignoreEndOfSequence && llama_vocab_is_eog(model.vocab(), sampled.token);
  const bool stopToken =
      std::find(stopTokens.begin(), stopTokens.end(), sampled.token) != stopTokens.end() &&
      (stopBefore.empty() || reply.text.find(stopBefore) == std::string::npos);
  const bool mayEnd = static_cast<int>(reply.tokens.size()) > minTokens;
  reply.finish = Finish::kStop;
  if (!endOfTurn && !stopToken) {
    reply.text += model.piece(sampled.token, false);
    const size_t end = stoppable(reply.text);
    if (mayEnd && cutAtStopString(reply.text, searched, end)) return true;
    searched = end;
    reply.finish = Finish::kLength;
    if (static_cast<int>(reply.tokens.size()) < maxTokens) return false;
  }
  // What only looked like the beginning of stopBefore is text like any other.
  const bool isText = stopBefore.empty() || reply.text.find(stopBefore) == std::string::npos;
  if (mayEnd && isText && cutAtStopString(reply.text, searched, reply.text.size()))
    reply.finish = Finish::kStop;
  return true;
}

size_t ReplyLimits::stoppable(const std::string& text) const {
  if (stopBefore.empty()) return text.size();
  const size_t found = text.find(stopBefore);
  if (found != std::string::npos) return found;
  for (size_t length = std::min(stopBefore.size() - 1, text.size()); length > 0; --length) {
    if (text.compare(text.size() - length, length, stopBefore, 0, length) == 0)
      return text.size() - length;
  }
  return text.size();
}

// Cuts the text before the first stop string that ends within `end` bytes.
bool ReplyLimits::cutAtStopString(std::string& text, size_t searched, size_t end) const {
  size_t found = std::string::npos;
  for (const std::string& stop : stopStrings) {
    const size_t at = text.find(stop, searched - std::min(searched, stop.size() - 1));
    if (at != std::string::npos && at + stop.size() <= end) found = std::min(found, at);
  }
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
  if (!stopBefore.empty() && !stopStrings.empty()) {
    if (text.find(stopBefore) != std::string::npos) return wholeCharacters(text, end);
    end = stoppable(text);
  }
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
