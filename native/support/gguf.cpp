#include "support/gguf.h"

#include <cstring>
#include <limits>
#include <utility>

#include "support/error.h"

namespace isopro {
namespace {

constexpr std::size_t longestKey = 65'535;                    // of the specification
constexpr std::size_t longestTensorName = GGML_MAX_NAME - 1;  // of ggml
constexpr std::uint64_t largestAlignment =
    1u << 20;  // any power of two is legal, but all known files use 32

std::size_t elementBytes(GgufType type) {
  switch (type) {
    case GgufType::Uint8:
    case GgufType::Int8:
    case GgufType::Bool:
      return 1;
    case GgufType::Uint16:
    case GgufType::Int16:
      return 2;
    case GgufType::Uint32:
    case GgufType::Int32:
    case GgufType::Float32:
      return 4;
    case GgufType::Uint64:
    case GgufType::Int64:
    case GgufType::Float64:
      return 8;
    case GgufType::Text:
      return 8;  // at least: its length
    case GgufType::Array:
      break;
  }
  return 0;
}

template <typename T>
T load(const std::uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// An integer of any width, if the type is one and the value fits.
std::optional<std::int64_t> loadInteger(GgufType type, const std::uint8_t* bytes) {
  switch (type) {
    case GgufType::Uint8:
      return load<std::uint8_t>(bytes);
    case GgufType::Int8:
      return load<std::int8_t>(bytes);
    case GgufType::Uint16:
      return load<std::uint16_t>(bytes);
    case GgufType::Int16:
      return load<std::int16_t>(bytes);
    case GgufType::Uint32:
      return load<std::uint32_t>(bytes);
    case GgufType::Int32:
      return load<std::int32_t>(bytes);
    case GgufType::Int64:
      return load<std::int64_t>(bytes);
    case GgufType::Uint64: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::string_view loadText(const std::uint8_t* bytes) {
  return {reinterpret_cast<const char*>(bytes + 8),
          static_cast<std::size_t>(load<std::uint64_t>(bytes))};
}

}  // namespace

const char* name(GgufType type) {
  static const char* const names[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "text", "array", "u64", "i64", "f64"};
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(names) ? names[index] : "unknown";
}

std::string inQuotes(std::string_view text) {
  constexpr std::size_t longest = 64;
  std::string result = "\"";
  for (const char c : text.substr(0, longest)) result += c >= 32 && c < 127 ? c : '?';
  return result + (text.size() > longest ? "...\"" : "\"");
}

// Reads forward; every read is checked against what is left.
class GgufFile::Cursor {
 public:
  explicit Cursor(const GgufFile& file) : file_(file) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return file_.size_ - position_; }

  const std::uint8_t* take(std::uint64_t count, const char* what) {
    if (count > left())
      file_.fail(std::string("the file ends within ") + what + ": it has only " +
                 std::to_string(file_.size_) + " bytes");
    const std::uint8_t* bytes = file_.data_ + position_;
    position_ += static_cast<std::size_t>(count);
    return bytes;
  }

  template <typename T>
  T number(const char* what) {
    return load<T>(take(sizeof(T), what));
  }

  std::string_view text(const char* what) {
    const auto length = number<std::uint64_t>(what);
    return {reinterpret_cast<const char*>(take(length, what)), static_cast<std::size_t>(length)};
  }

 private:
  const GgufFile& file_;
  std::size_t position_ = 0;
};

GgufFile GgufFile::open(const std::string& path, ErrorCode code) {
  GgufFile file;
  file.mapping_ = MappedFile::open(path, code);
  file.data_ = file.mapping_->data();
  file.size_ = file.mapping_->size();
  file.code_ = code;
  file.label_ = path + ": ";
  file.parse();
  return file;
}

GgufFile GgufFile::parse(const std::uint8_t* data, std::size_t size, ErrorCode code) {
  GgufFile file;
  file.data_ = data;
  file.size_ = size;
  file.code_ = code;
  file.parse();
  return file;
}

void GgufFile::failUnknown(std::uint64_t number, const std::string& what) const {
  constexpr std::uint64_t mostPlausible =
      999;  // what a flipped bit makes of a small number is mostly far above
  fail(code_ == ErrorCode::modelCorrupt && number <= mostPlausible ? ErrorCode::modelUnsupported
                                                                   : code_,
       what);
}
void GgufFile::fail(ErrorCode code, const std::string& what) const {
  throw Error(code, label_ + what);
}

void GgufFile::parse() {
  Cursor cursor(*this);
  if (size_ < 4 || std::memcmp(cursor.take(4, "the magic"), "GGUF", 4) != 0)
    fail("not a GGUF file: it does not begin with \"GGUF\"");
  version_ = cursor.number<std::uint32_t>("the version");
  if (version_ != 2 && version_ != 3) {
    const bool bigEndian = (version_ & 0xffff) == 0 && version_ != 0;
    failUnknown(bigEndian ? 0 : version_, "GGUF version " + std::to_string(version_) +
                                              " is not read, only 2 and 3" +
                                              (bigEndian ? "; the file may be big-endian" : ""));
  }
  const auto tensorCount = cursor.number<std::uint64_t>("the number of tensors");
  const auto entryCount = cursor.number<std::uint64_t>("the number of metadata entries");
  // An entry has at least a length, a type and one byte; a row of the tensor table a length, a
  // rank, a type, an offset.
  if (entryCount > cursor.left() / 13)
    fail("the file is too short for " + std::to_string(entryCount) + " metadata entries");
  if (tensorCount > cursor.left() / 24)
    fail("the file is too short for " + std::to_string(tensorCount) + " tensors");

  metadata_.reserve(static_cast<std::size_t>(entryCount));
  for (std::uint64_t i = 0; i < entryCount; ++i) {
    const std::string_view key = cursor.text("a metadata key");
    if (key.empty() || key.size() > longestKey || key.find('\0') != std::string_view::npos)
      fail("metadata key " + inQuotes(key) + " is not a key");
    if (!keys_.emplace(key, metadata_.size()).second)
      fail("metadata key " + inQuotes(key) + " occurs twice");
    metadata_.push_back({key, readValue(cursor, key)});
  }

  if (const GgufValue* value = find("general.alignment"); value != nullptr) {
    if (value->isArray || value->type != GgufType::Uint32) fail("general.alignment is not a u32");
    alignment_ = load<std::uint32_t>(value->bytes);
    if (alignment_ == 0 || (alignment_ & (alignment_ - 1)) != 0 || alignment_ > largestAlignment) {
      fail("general.alignment " + std::to_string(alignment_) + " is not a power of two up to 2^20");
    }
  }

  tensors_.reserve(static_cast<std::size_t>(tensorCount));
  for (std::uint64_t i = 0; i < tensorCount; ++i) {
    tensors_.push_back(readTensor(cursor));
    if (!names_.emplace(tensors_.back().name, tensors_.size() - 1).second)
      fail("tensor " + inQuotes(tensors_.back().name) + " occurs twice");
  }

  // Tensors lie in the order of their table, each padded to the alignment: so ggml demands. A size
  // was checked to be at most 2^62, and the position to be at most 2^63 before it is added to, so
  // that nothing here overflows.
  const auto padded = [this](std::uint64_t position) {
    return (position + alignment_ - 1) / alignment_ * alignment_;
  };
  const std::uint64_t start = padded(cursor.position());
  std::uint64_t position = start;
  std::uint64_t end = start;
  const GgufTensor* cut = nullptr;
  for (GgufTensor& tensor : tensors_) {
    if (tensor.offset != position - start) {
      fail("tensor " + inQuotes(tensor.name) + " has offset " + std::to_string(tensor.offset) +
           " instead of " + std::to_string(position - start));
    }
    tensor.offset = position;
    end = position + tensor.bytes;
    if (end > (std::uint64_t{1} << 63)) fail("tensor " + inQuotes(tensor.name) + " is too large");
    if (cut == nullptr && end > size_) cut = &tensor;
    position = padded(end);
  }
  if (cut != nullptr) {
    fail("the file is cut off within tensor " + inQuotes(cut->name) + ": it has " +
         std::to_string(size_) + " of " + std::to_string(end) + " bytes");
  }
}

GgufValue GgufFile::readValue(Cursor& cursor, std::string_view key) const {
  GgufValue value{};
  const auto readType = [&] {
    const auto type = cursor.number<std::uint32_t>("a metadata type");
    if (type > static_cast<std::uint32_t>(GgufType::Float64))
      failUnknown(type, "metadata " + inQuotes(key) + " has unknown type " + std::to_string(type));
    return static_cast<GgufType>(type);
  };
  value.type = readType();
  value.isArray = value.type == GgufType::Array;
  if (value.isArray) {
    value.type = readType();
    if (value.type == GgufType::Array) fail("metadata " + inQuotes(key) + " is an array of arrays");
    value.count = cursor.number<std::uint64_t>("the length of an array");
  }
  const std::size_t width = elementBytes(value.type);
  if (value.count > cursor.left() / width) {
    fail("the file ends within metadata " + inQuotes(key) + ": it has only " +
         std::to_string(size_) + " bytes");
  }
  value.bytes = data_ + cursor.position();
  if (value.type == GgufType::Text) {
    for (std::uint64_t i = 0; i < value.count; ++i) cursor.text("a text of the metadata");
  } else {
    cursor.take(value.count * width, "a metadata value");
  }
  return value;
}

GgufTensor GgufFile::readTensor(Cursor& cursor) const {
  GgufTensor tensor;
  tensor.name = cursor.text("a tensor name");
  const std::string shown = "tensor " + inQuotes(tensor.name);
  if (tensor.name.empty() || tensor.name.size() > longestTensorName ||
      tensor.name.find('\0') != std::string_view::npos) {
    fail(shown + " has no valid name");
  }
  const auto rank = cursor.number<std::uint32_t>("a tensor's rank");
  if (rank < 1 || rank > GGML_MAX_DIMS) fail(shown + " has rank " + std::to_string(rank));
  tensor.rank = static_cast<int>(rank);
  std::int64_t elements = 1;
  for (int i = 0; i < tensor.rank; ++i) {
    const auto dimension = cursor.number<std::uint64_t>("a tensor's dimensions");
    // No element takes less than a sixteenth of a byte, so that a larger product cannot lie in any
    // file.
    constexpr std::uint64_t most = std::uint64_t{1} << 60;
    if (dimension == 0 || dimension > most / static_cast<std::uint64_t>(elements)) {
      fail(shown + " has a dimension of " + std::to_string(dimension));
    }
    tensor.dimensions[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(dimension);
    elements *= static_cast<std::int64_t>(dimension);
  }
  const auto type = cursor.number<std::uint32_t>("a tensor's type");
  // ggml keeps the ids of removed types, with blocks of 0 elements.
  if (type >= GGML_TYPE_COUNT || ggml_blck_size(static_cast<ggml_type>(type)) <= 0 ||
      ggml_type_size(static_cast<ggml_type>(type)) == 0) {
    failUnknown(type, shown + " has unknown type " + std::to_string(type));
  }
  tensor.type = static_cast<ggml_type>(type);
  const std::int64_t block = ggml_blck_size(tensor.type);
  if (tensor.dimensions[0] % block != 0) {
    fail(shown + ": rows of " + std::to_string(tensor.dimensions[0]) + " are not whole blocks of " +
         ggml_type_name(tensor.type));
  }
  const auto blocks = static_cast<std::uint64_t>(elements / block);
  const auto blockBytes = static_cast<std::uint64_t>(ggml_type_size(tensor.type));
  if (blocks > (std::uint64_t{1} << 62) / blockBytes) fail(shown + " is too large");
  tensor.bytes = blocks * blockBytes;
  tensor.offset = cursor.number<std::uint64_t>("a tensor's offset");
  return tensor;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : &metadata_[found->second].value;
}

const GgufTensor* GgufFile::findTensor(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &tensors_[found->second];
}

namespace {

[[noreturn]] void wrongType(const GgufFile& file, std::string_view key, const GgufValue& value,
                            const char* expected) {
  file.fail("metadata " + inQuotes(key) + " is " + (value.isArray ? "an array of " : "") +
            name(value.type) + ", not " + expected);
}

}  // namespace

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->isArray || value->type != GgufType::Text) wrongType(*this, key, *value, "a text");
  return loadText(value->bytes);
}

std::optional<std::uint64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto result = value->isArray ? std::nullopt : loadInteger(value->type, value->bytes);
  if (!result || *result < 0) wrongType(*this, key, *value, "an integer of at least 0");
  return static_cast<std::uint64_t>(*result);
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->isArray && value->type == GgufType::Float32) return load<float>(value->bytes);
  if (!value->isArray && value->type == GgufType::Float64) return load<double>(value->bytes);
  wrongType(*this, key, *value, "a real number");
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->isArray || value->type != GgufType::Bool) wrongType(*this, key, *value, "a bool");
  return *value->bytes != 0;
}

std::optional<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->isArray || value->type != GgufType::Text)
    wrongType(*this, key, *value, "an array of texts");
  std::vector<std::string_view> result;
  result.reserve(static_cast<std::size_t>(value->count));
  const std::uint8_t* bytes = value->bytes;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    result.push_back(loadText(bytes));
    bytes += 8 + result.back().size();
  }
  return result;
}

std::optional<std::vector<float>> GgufFile::floats(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->isArray || value->type != GgufType::Float32)
    wrongType(*this, key, *value, "an array of f32");
  std::vector<float> result(static_cast<std::size_t>(value->count));
  if (!result.empty()) std::memcpy(result.data(), value->bytes, result.size() * sizeof(float));
  return result;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->isArray ||
      !loadInteger(value->type, reinterpret_cast<const std::uint8_t*>("\0\0\0\0\0\0\0\0"))) {
    wrongType(*this, key, *value, "an array of integers");
  }
  std::vector<std::int64_t> result;
  result.reserve(static_cast<std::size_t>(value->count));
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto element = loadInteger(value->type, value->bytes + i * elementBytes(value->type));
    if (!element) wrongType(*this, key, *value, "an array of integers below 2^63");
    result.push_back(*element);
  }
  return result;
}

std::string GgufFile::integerText(const GgufValue& value) {
  if (value.type == GgufType::Uint64) return std::to_string(load<std::uint64_t>(value.bytes));
  const auto integer = loadInteger(value.type, value.bytes);
  return integer ? std::to_string(*integer) : "";
}

}  // namespace isopro
