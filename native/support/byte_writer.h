// Values appended to bytes, little-endian as on every machine that this runs on.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace isopro {

struct ByteWriter {
  std::vector<std::uint8_t> bytes;

  void raw(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    bytes.insert(bytes.end(), from, from + size);
  }
  template <typename T>
  void put(T value) {
    raw(&value, sizeof value);
  }
  // Its length in `Length`, then its bytes.
  template <typename Length>
  void text(std::string_view value) {
    put(static_cast<Length>(value.size()));
    raw(value.data(), value.size());
  }
};

}  // namespace isopro
