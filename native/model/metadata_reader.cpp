#include "model/metadata_reader.h"

#include <limits>
#include <sstream>
#include <utility>

namespace isopro {
namespace {

std::string withDigits(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

}  // namespace

std::string_view architectureOf(const GgufFile& file) {
  const auto type = file.text("general.type");
  if (type && *type == "adapter")
    file.fail(ErrorCode::modelUnsupported, "this is a LoRA adapter, not a model");
  const auto architecture = file.text("general.architecture");
  if (!architecture) file.fail("metadata \"general.architecture\" is missing");
  return *architecture;
}

std::int64_t MetadataReader::integer(const std::string& suffix, std::int64_t low,
                                     std::int64_t high) const {
  const auto value = file_.integer(key(suffix));
  if (!value) file_.fail("metadata \"" + key(suffix) + "\" is missing");
  return within(suffix, *value, low, high);
}

std::int64_t MetadataReader::integerOr(const std::string& suffix, std::int64_t low,
                                       std::int64_t high, std::int64_t absent) const {
  const auto value = file_.integer(key(suffix));
  return value ? within(suffix, *value, low, high) : absent;
}

double MetadataReader::real(const std::string& suffix, double low, double high) const {
  const auto value = file_.real(key(suffix));
  if (!value) file_.fail("metadata \"" + key(suffix) + "\" is missing");
  return within(suffix, *value, low, high);
}

double MetadataReader::realOr(const std::string& suffix, double low, double high,
                              double absent) const {
  const auto value = file_.real(key(suffix));
  return value ? within(suffix, *value, low, high) : absent;
}

std::vector<std::int64_t> MetadataReader::ofLayers(const std::string& suffix, std::int64_t layers,
                                                   std::int64_t high,
                                                   std::vector<std::int64_t> absent) const {
  const GgufValue* value = file_.find(key(suffix));
  if (value == nullptr) return absent;
  const auto count = static_cast<std::size_t>(layers);
  if (!value->isArray) return std::vector<std::int64_t>(count, integerOr(suffix, 0, high, 0));
  const auto values = *file_.integers(key(suffix));
  if (values.size() < count)
    file_.fail("metadata \"" + key(suffix) + "\" has " + std::to_string(values.size()) +
               " values for " + std::to_string(layers) + " layers");
  for (const std::int64_t one : values) {
    if (one < 0 || one > high)
      file_.fail("metadata \"" + key(suffix) + "\" is " + std::to_string(one) + ", outside 0 to " +
                 std::to_string(high));
  }
  return {values.begin(), values.begin() + layers};
}

std::int64_t MetadataReader::within(const std::string& suffix, std::uint64_t value,
                                    std::int64_t low, std::int64_t high) const {
  if (value < static_cast<std::uint64_t>(low) || value > static_cast<std::uint64_t>(high)) {
    file_.fail("metadata \"" + key(suffix) + "\" is " + std::to_string(value) + ", outside " +
               std::to_string(low) + " to " + std::to_string(high));
  }
  return static_cast<std::int64_t>(value);
}

double MetadataReader::within(const std::string& suffix, double value, double low,
                              double high) const {
  if (!(value >= low && value <= high)) {  // NaN fails too
    file_.fail("metadata \"" + key(suffix) + "\" is " + withDigits(value) + ", outside " +
               withDigits(low) + " to " + withDigits(high));
  }
  return value;
}

void refuseOtherKinds(const GgufFile& file, const MetadataReader& read) {
  if (read.integerOr("pooling_type", 0, std::numeric_limits<std::int64_t>::max(), 0) != 0)
    file.fail(ErrorCode::modelUnsupported, "this is an embedding model");
  if (!file.boolean(read.key("attention.causal")).value_or(true))
    file.fail(ErrorCode::modelUnsupported, "attention is not causal");
  if (read.has("classifier.output_labels"))
    file.fail(ErrorCode::modelUnsupported, "this is a classifier");
  if (read.has("embedding_length_out"))
    file.fail(ErrorCode::modelUnsupported, "this is an embedding model");
  if (file.integer("split.count").value_or(1) > 1)
    file.fail(ErrorCode::modelUnsupported,
              "this is one part of a split model: merge the parts with llama-gguf-split --merge");
}

}  // namespace isopro
