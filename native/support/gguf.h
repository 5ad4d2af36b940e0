// A bounds-checked reader of GGUF v2 and v3 (little-endian). Everything that it returns points into
// the file's bytes and has been checked against their end; what it allocates is bounded by the
// file's size. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <ggml.h>

#include "support/error.h"
#include "support/mapped_file.h"

namespace isopro {

enum class GgufType : std::uint32_t {
  Uint8 = 0,
  Int8 = 1,
  Uint16 = 2,
  Int16 = 3,
  Uint32 = 4,
  Int32 = 5,
  Float32 = 6,
  Bool = 7,
  Text = 8,
  Array = 9,
  Uint64 = 10,
  Int64 = 11,
  Float64 = 12,
};

const char* name(GgufType type);

struct GgufValue {
  GgufType type;  // of the value, or of the elements of an array
  bool isArray = false;
  std::uint64_t count = 1;  // elements
  const std::uint8_t* bytes =
      nullptr;  // of the first element; a text is a u64 length and its bytes
};

struct GgufEntry {
  std::string_view key;
  GgufValue value;
};

struct GgufTensor {
  std::string_view name;
  ggml_type type = GGML_TYPE_F32;
  int rank = 0;
  std::array<std::int64_t, GGML_MAX_DIMS> dimensions{1, 1, 1,
                                                     1};  // dimensions[0] is the length of a row
  std::uint64_t offset = 0;                               // from the start of the file
  std::uint64_t bytes = 0;

  // Elements; cannot overflow.
  std::int64_t elements() const {
    return dimensions[0] * dimensions[1] * dimensions[2] * dimensions[3];
  }
};

class GgufFile {
 public:
  // Maps and parses. `code` is the error code of a malformed file. Throws MODEL_NOT_FOUND,
  // MODEL_CORRUPT or `code`.
  static GgufFile open(const std::string& path, ErrorCode code = ErrorCode::modelCorrupt);
  // Parses bytes that the caller keeps alive.
  static GgufFile parse(const std::uint8_t* data, std::size_t size,
                        ErrorCode code = ErrorCode::modelCorrupt);

  // As MappedFile::release; nothing where the bytes are the caller's.
  void release() const {
    if (mapping_ != nullptr) mapping_->release();
  }

  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  std::size_t size() const { return size_; }
  const std::vector<GgufEntry>& metadata() const { return metadata_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  const GgufValue* find(std::string_view key) const;          // nullptr where there is none
  const GgufTensor* findTensor(std::string_view name) const;  // nullptr where there is none
  const std::uint8_t* data(const GgufTensor& tensor) const { return data_ + tensor.offset; }

  // Typed access: nothing where the key is absent, the file's error code where it has another type.
  // Integers of every width are accepted where they are not negative.
  std::optional<std::string_view> text(std::string_view key) const;
  std::optional<std::uint64_t> integer(std::string_view key) const;
  std::optional<double> real(std::string_view key) const;  // f32 or f64
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
  std::optional<std::vector<float>> floats(std::string_view key) const;  // f32 elements
  std::optional<std::vector<std::int64_t>> integers(
      std::string_view key) const;  // elements below 2^63

  // Decimal digits of a value of any integer type.
  static std::string integerText(const GgufValue& value);

  // Throws the file's error code, or another one; the message begins with the path.
  [[noreturn]] void fail(const std::string& what) const { fail(code_, what); }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;
  // Of a number that another version of the format may have: a model is MODEL_UNSUPPORTED then.
  [[noreturn]] void failUnknown(std::uint64_t number, const std::string& what) const;

 private:
  class Cursor;

  void parse();
  GgufValue readValue(Cursor& cursor, std::string_view key) const;
  GgufTensor readTensor(Cursor& cursor) const;

  std::shared_ptr<const MappedFile> mapping_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  ErrorCode code_ = ErrorCode::modelCorrupt;
  std::string label_;  // before each message
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<GgufEntry> metadata_;
  std::vector<GgufTensor> tensors_;
  std::unordered_map<std::string_view, std::size_t> keys_;
  std::unordered_map<std::string_view, std::size_t> names_;
};

// Text of a file for an error message: clipped, and what does not print as '?'.
std::string inQuotes(std::string_view text);

}  // namespace isopro
