#include "inference/prefix_cache.h"

#include <algorithm>
#include <utility>

namespace isopro {

bool PrefixCache::KeptSequence::isOf(const AppliedAdapter& other,
                                     const std::string& otherPartition) const {
  if (partition != otherPartition) return false;
  if (bare || other.adapter == nullptr) return bare && other.adapter == nullptr;
  return adapter.lock() == other.adapter && scale == other.scale;
}

PrefixCache::PrefixCache(int tokens, std::vector<llama_seq_id> ids)
    : most_(ids.empty() ? 0 : tokens), freeIds_(std::move(ids)) {}

size_t PrefixCache::commonLength(const std::vector<Token>& one, const std::vector<Token>& other) {
  const size_t most = std::min(one.size(), other.size());
  return static_cast<size_t>(
      std::mismatch(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(most), other.begin())
          .first -
      one.begin());
}

std::optional<CachedPrefix> PrefixCache::find(const AppliedAdapter& adapter,
                                              const std::vector<Token>& prompt,
                                              const std::string& partition) {
  auto best = kept_.end();
  size_t longest = 0;
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    const size_t common = kept->isOf(adapter, partition)
                              ? std::min(commonLength(kept->tokens, prompt), prompt.size() - 1)
                              : 0;
    if (common <= longest) continue;
    longest = common;
    best = kept;
  }
  if (best == kept_.end()) return std::nullopt;
  kept_.splice(kept_.end(), kept_, best);
  return CachedPrefix{best->sequence, static_cast<int>(longest)};
}

CachedPrefix PrefixCache::add(const AppliedAdapter& adapter, const std::string& partition,
                              std::vector<Token> tokens) {
  const auto length = static_cast<int>(tokens.size());
  kept_.push_back({freeIds_.back(), adapter.adapter, adapter.adapter == nullptr, adapter.scale,
                   partition, std::move(tokens)});
  freeIds_.pop_back();
  tokens_ += length;
  return {kept_.back().sequence, length};
}

llama_seq_id PrefixCache::drop(std::list<KeptSequence>::iterator kept) {
  const llama_seq_id sequence = kept->sequence;
  tokens_ -= static_cast<int>(kept->tokens.size());
  freeIds_.push_back(sequence);
  kept_.erase(kept);
  return sequence;
}

llama_seq_id PrefixCache::dropOldest() { return drop(kept_.begin()); }

void PrefixCache::clear() {
  while (!empty()) dropOldest();
}

}  // namespace isopro
