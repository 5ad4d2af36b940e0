// Which finished sequences stay in the KV cache, so that a later prompt that begins like one of
// them need not be evaluated from its beginning. Knows token ids only; the cells are the caller's.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inference/adapter.h"

namespace isopro {

struct CachedPrefix {
  llama_seq_id sequence;
  int length;  // tokens that it has in common with the prompt
};

class PrefixCache {
 public:
  // Keeps at most `tokens` tokens in at most as many sequences as `ids` names; 0 tokens: nothing at
  // all.
  PrefixCache(int tokens, std::vector<llama_seq_id> ids);

  // The sequence that has most tokens in common with the beginning of a prompt, less its last
  // token, which has to be evaluated for its logits. It counts as used now. What was kept under
  // another partition is not there.
  std::optional<CachedPrefix> find(const AppliedAdapter& adapter, const std::vector<Token>& prompt,
                                   const std::string& partition = {});

  // Where the tokens of a finished sequence are to be copied to, and how many of them; none where
  // they are not worth keeping. `evict` is called first for every sequence whose cells are to be
  // given back.
  template <typename Evict>
  std::optional<CachedPrefix> keep(const AppliedAdapter& adapter, std::vector<Token> tokens,
                                   Evict evict, const std::string& partition = {}) {
    if (tokens.size() > static_cast<size_t>(most_)) tokens.resize(static_cast<size_t>(most_));
    if (tokens.empty() || !dropCovered(adapter, partition, tokens, evict)) return std::nullopt;
    while (tokens_ + static_cast<int>(tokens.size()) > most_ || freeIds_.empty())
      evict(dropOldest());
    return add(adapter, partition, std::move(tokens));
  }

  // Forgets the sequence that was used longest ago; not to be called on an empty cache.
  llama_seq_id dropOldest();
  void clear();

  bool empty() const { return kept_.empty(); }
  int tokens() const { return tokens_; }

 private:
  struct KeptSequence {
    llama_seq_id sequence;
    std::weak_ptr<Adapter> adapter;  // its weights go when whoever loaded it lets go of it
    bool bare;
    float scale;
    std::string partition;
    std::vector<Token> tokens;

    bool isOf(const AppliedAdapter& other, const std::string& otherPartition) const;
  };

  // Drops what the tokens continue; false where they are the beginning of a sequence that is kept.
  template <typename Evict>
  bool dropCovered(const AppliedAdapter& adapter, const std::string& partition,
                   const std::vector<Token>& tokens, Evict evict) {
    for (auto kept = kept_.begin(); kept != kept_.end();) {
      const size_t common = kept->isOf(adapter, partition) ? commonLength(kept->tokens, tokens) : 0;
      if (common == tokens.size()) return false;
      const auto next = std::next(kept);
      if (common == kept->tokens.size()) evict(drop(kept));
      kept = next;
    }
    return true;
  }

  static size_t commonLength(const std::vector<Token>& one, const std::vector<Token>& other);
  CachedPrefix add(const AppliedAdapter& adapter, const std::string& partition,
                   std::vector<Token> tokens);
  llama_seq_id drop(std::list<KeptSequence>::iterator kept);

  const int most_;
  int tokens_ = 0;
  std::vector<llama_seq_id> freeIds_;
  std::list<KeptSequence> kept_;  // used longest ago first
};

}  // namespace isopro
