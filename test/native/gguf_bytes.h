// Builds GGUF files byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/gguf.h"

namespace isopro::test {

// Appends little-endian values; the test says byte by byte what a file holds.
struct Bytes : std::vector<std::uint8_t> {
  template <typename T>
  Bytes& number(T value) {
    const auto* first = reinterpret_cast<const std::uint8_t*>(&value);
    insert(end(), first, first + sizeof value);
    return *this;
  }
  Bytes& text(const std::string& value) {
    number<std::uint64_t>(value.size());
    insert(end(), value.begin(), value.end());
    return *this;
  }
  Bytes& header(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3) {
    for (const char c : {'G', 'G', 'U', 'F'}) push_back(static_cast<std::uint8_t>(c));
    return number(version).number(tensors).number(entries);
  }
  Bytes& tensor(const std::string& name, std::vector<std::uint64_t> dimensions, std::uint32_t type,
                std::uint64_t offset) {
    text(name).number(static_cast<std::uint32_t>(dimensions.size()));
    for (const auto dimension : dimensions) number(dimension);
    return number(type).number(offset);
  }
  Bytes& entry(const std::string& key, const std::string& value) {
    return text(key).number<std::uint32_t>(8).text(value);
  }
  Bytes& entry(const std::string& key, const char* value) { return entry(key, std::string(value)); }
  Bytes& entry(const std::string& key, std::uint32_t value) {
    return text(key).number<std::uint32_t>(4).number(value);
  }
  Bytes& entry(const std::string& key, float value) {
    return text(key).number<std::uint32_t>(6).number(value);
  }
  Bytes& entry(const std::string& key, bool value) {
    return text(key).number<std::uint32_t>(7).number<std::uint8_t>(value);
  }
  Bytes& entry(const std::string& key, const std::vector<std::string>& values) {
    text(key).number<std::uint32_t>(9).number<std::uint32_t>(8).number<std::uint64_t>(
        values.size());
    for (const auto& value : values) text(value);
    return *this;
  }
  template <typename T>
  Bytes& entry(const std::string& key, std::uint32_t type, const std::vector<T>& values) {
    text(key).number<std::uint32_t>(9).number(type).template number<std::uint64_t>(values.size());
    for (const T value : values) number(value);
    return *this;
  }
  Bytes& pad(std::size_t alignment) {
    while (size() % alignment != 0) push_back(0);
    return *this;
  }
  GgufFile parse(ErrorCode code = ErrorCode::modelCorrupt) const {
    return GgufFile::parse(data(), size(), code);
  }
};

}  // namespace isopro::test
