// Reads the metadata of a model file: what every architecture's validator asks of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/gguf.h"

namespace isopro {

// Sizes beyond these belong to no model; they keep every product that llama.cpp forms in 32 bits
// from wrapping.
constexpr std::int64_t kMostLayers = 512;  // LLAMA_MAX_LAYERS
constexpr std::int64_t kMostContext = std::int64_t{1} << 27;
constexpr std::int64_t kMostWidth = std::int64_t{1} << 20;
constexpr std::int64_t kMostHeads = std::int64_t{1} << 12;
constexpr std::int64_t kMostHeadWidth = std::int64_t{1} << 12;
constexpr std::int64_t kMostExperts = 1024;  // LLAMA_MAX_EXPERTS

// Throws MODEL_UNSUPPORTED of an adapter, MODEL_CORRUPT where the file names no architecture.
std::string_view architectureOf(const GgufFile& file);

// Entries `architecture.key`. Those that are missing, or outside a range, throw MODEL_CORRUPT.
class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string key(const std::string& suffix) const { return prefix_ + suffix; }
  bool has(const std::string& suffix) const { return file_.find(key(suffix)) != nullptr; }

  std::int64_t integer(const std::string& suffix, std::int64_t low, std::int64_t high) const;
  std::int64_t integerOr(const std::string& suffix, std::int64_t low, std::int64_t high,
                         std::int64_t absent) const;
  double real(const std::string& suffix, double low, double high) const;
  double realOr(const std::string& suffix, double low, double high, double absent) const;
  // One integer of 0 to `high` for each layer, or one for all; `absent` where there is none.
  std::vector<std::int64_t> ofLayers(const std::string& suffix, std::int64_t layers,
                                     std::int64_t high, std::vector<std::int64_t> absent) const;

 private:
  std::int64_t within(const std::string& suffix, std::uint64_t value, std::int64_t low,
                      std::int64_t high) const;
  double within(const std::string& suffix, double value, double low, double high) const;

  const GgufFile& file_;
  std::string prefix_;
};

// Throws MODEL_UNSUPPORTED of what is no whole text decoder: an embedding model, a classifier, one
// part of several.
void refuseOtherKinds(const GgufFile& file, const MetadataReader& read);

}  // namespace isopro
