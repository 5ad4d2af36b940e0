#include "training/model_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/byte_writer.h"
#include "support/error.h"

namespace isopro::training {
namespace {

struct FileType {
  const char* name;
  ggml_type type;
  std::uint32_t id;  // general.file_type: llama.cpp's llama_ftype
};

constexpr std::array<FileType, 9> kFileTypes = {{
    {"f32", GGML_TYPE_F32, 0},
    {"f16", GGML_TYPE_F16, 1},
    {"bf16", GGML_TYPE_BF16, 32},
    {"q8_0", GGML_TYPE_Q8_0, 7},
    {"q4_0", GGML_TYPE_Q4_0, 2},
    {"q5_0", GGML_TYPE_Q5_0, 8},
    {"q4_k", GGML_TYPE_Q4_K, 14},
    {"q5_k", GGML_TYPE_Q5_K, 16},
    {"q6_k", GGML_TYPE_Q6_K, 18},
}};

constexpr std::uint32_t kQuantisationVersion = GGML_QNT_VERSION;
constexpr std::int64_t kPieceElements = 1 << 21;  // 8 MB of f32
constexpr float kLargestHalf = 65504.0f;

const FileType& fileType(const std::string& name) {
  for (const FileType& row : kFileTypes) {
    if (name == row.name) return row;
  }
  throw Error(ErrorCode::invalidArgument, "models cannot be written as " + name);
}

// nullptr where no model is written as that.
const FileType* fileType(ggml_type type) {
  const auto* row = std::find_if(kFileTypes.begin(), kFileTypes.end(),
                                 [&](const FileType& each) { return each.type == type; });
  return row == kFileTypes.end() ? nullptr : &*row;
}

void putNumber(ByteWriter& w, std::string_view key, std::uint32_t value) {
  w.text<std::uint64_t>(key);
  w.put(static_cast<std::uint32_t>(GgufType::Uint32));
  w.put(value);
}

// Matrices but those of experts and their routers, which keep their type, as do tables of biases.
bool isEncoded(const GgufTensor& tensor) {
  const auto ends = [&](std::string_view end) {
    return tensor.name.size() >= end.size() &&
           tensor.name.substr(tensor.name.size() - end.size()) == end;
  };
  return tensor.rank == 2 && tensor.dimensions[1] > 1 && !ends(".bias") &&
         !ends("ffn_gate_inp.weight");
}

// Where a key or name of the file begins, its length before it.
const std::uint8_t* start(std::string_view text) {
  return reinterpret_cast<const std::uint8_t*>(text.data()) - sizeof(std::uint64_t);
}

}  // namespace

ModelFile::ModelFile(std::shared_ptr<const GgufFile> source, const std::string& type)
    : source_(std::move(source)), type_(fileType(type).type) {
  for (const GgufTensor& tensor : source_->tensors()) {
    ggml_type stored = tensor.type;
    if (isEncoded(tensor) && kernels::readable(tensor.type)) {
      stored = tensor.dimensions[0] % ggml_blck_size(type_) == 0 ? type_ : GGML_TYPE_F16;
    }
    tensors_.push_back({&tensor, stored, tensor.elements() / tensor.dimensions[0], {}});
  }
}

ModelFile::Tensor& ModelFile::find(const std::string& name) {
  for (Tensor& tensor : tensors_) {
    if (tensor.source->name == name) return tensor;
  }
  throw Error(ErrorCode::invalidArgument, "the model file has no tensor " + name);
}

void ModelFile::replace(const std::string& name, std::vector<float> values) {
  Tensor& tensor = find(name);
  if (static_cast<std::int64_t>(values.size()) != tensor.source->elements())
    throw Error(ErrorCode::invalidArgument, "tensor " + name + " has another size");
  if (tensor.rows == 1) tensor.type = GGML_TYPE_F32;
  tensor.change.values = std::move(values);
}

void ModelFile::adapt(const std::string& name, float scale, std::vector<float> a,
                      std::vector<float> b) {
  Tensor& tensor = find(name);
  const std::size_t rank = a.size() / static_cast<std::size_t>(tensor.columns());
  if (rank == 0 || a.size() != rank * static_cast<std::size_t>(tensor.columns()) ||
      b.size() != rank * static_cast<std::size_t>(tensor.rows)) {
    throw Error(ErrorCode::invalidArgument, "the factors of " + name + " have other shapes");
  }
  tensor.change.scale = scale;
  tensor.change.a = std::move(a);
  tensor.change.b = std::move(b);
}

std::uint64_t ModelFile::padded(std::uint64_t size) const {
  return (size + source_->alignment() - 1) / source_->alignment() * source_->alignment();
}

// llama.cpp's name for the type that most values of the matrices have.
std::uint32_t ModelFile::fileTypeId() const {
  std::map<ggml_type, std::int64_t> values;
  for (const Tensor& tensor : tensors_) {
    if (isEncoded(*tensor.source)) values[tensor.type] += tensor.source->elements();
  }
  const auto most =
      std::max_element(values.begin(), values.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const FileType* row = most == values.end() ? nullptr : fileType(most->first);
  return (row == nullptr ? fileType(type_) : row)->id;
}

// Metadata entries are copied as they lie in the file, but for the one that names the type of the
// matrices.
std::vector<std::uint8_t> ModelFile::header() const {
  const std::vector<GgufEntry>& entries = source_->metadata();
  const bool named = source_->find("general.file_type") != nullptr;
  const bool versioned =
      std::none_of(tensors_.begin(), tensors_.end(),
                   [](const Tensor& tensor) { return ggml_is_quantized(tensor.type); }) ||
      source_->find("general.quantization_version") != nullptr;
  ByteWriter w;
  w.raw("GGUF", 4);
  w.put(std::uint32_t{3});
  w.put(static_cast<std::uint64_t>(tensors_.size()));
  w.put(static_cast<std::uint64_t>(entries.size() + (named ? 0 : 1) + (versioned ? 0 : 1)));
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].key == "general.file_type") {
      putNumber(w, entries[i].key, fileTypeId());
      continue;
    }
    const std::uint8_t* begin = start(entries[i].key);
    const std::uint8_t* end =
        start(i + 1 < entries.size() ? entries[i + 1].key : tensors_.front().source->name);
    w.raw(begin, static_cast<std::size_t>(end - begin));
  }
  if (!named) putNumber(w, "general.file_type", fileTypeId());
  if (!versioned) putNumber(w, "general.quantization_version", kQuantisationVersion);
  std::uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    w.text<std::uint64_t>(tensor.source->name);
    w.put(static_cast<std::uint32_t>(tensor.source->rank));
    for (int i = 0; i < tensor.source->rank; ++i)
      w.put(static_cast<std::uint64_t>(tensor.source->dimensions[static_cast<std::size_t>(i)]));
    w.put(static_cast<std::uint32_t>(tensor.type));
    w.put(offset);
    offset = padded(offset + tensor.bytes());
  }
  w.bytes.resize(static_cast<std::size_t>(padded(w.bytes.size())));
  return std::move(w.bytes);
}

std::uint64_t ModelFile::size() {
  std::uint64_t total = header().size();
  for (const Tensor& tensor : tensors_) total += padded(tensor.bytes());
  return total;
}

std::map<std::string, std::int64_t> ModelFile::types() const {
  std::map<std::string, std::int64_t> counts;
  for (const Tensor& tensor : tensors_) ++counts[ggml_type_name(tensor.type)];
  return counts;
}

void ModelFile::encodeRows(const Tensor& tensor, std::int64_t begin, std::int64_t count,
                           std::uint8_t* to) const {
  const std::int64_t columns = tensor.columns();
  if (tensor.copied()) {
    std::memcpy(to,
                source_->data(*tensor.source) + static_cast<std::size_t>(begin) * tensor.rowBytes(),
                static_cast<std::size_t>(count) * tensor.rowBytes());
    return;
  }
  std::vector<float> values(static_cast<std::size_t>(count * columns));
  const Change& change = tensor.change;
  if (!change.values.empty()) {
    std::copy_n(change.values.begin() + begin * columns, count * columns, values.begin());
  } else {
    const Matrix matrix{source_->data(*tensor.source), tensor.source->type, tensor.rows, columns,
                        ggml_row_size(tensor.source->type, columns)};
    for (std::int64_t row = 0; row < count; ++row)
      kernels::readRow(kernels::kernels(), matrix, begin + row, 0, columns,
                       values.data() + row * columns);
  }
  const auto rank = static_cast<std::int64_t>(change.a.size()) / columns;
  for (std::int64_t row = 0; row < count && rank > 0; ++row) {
    float* w = values.data() + row * columns;
    for (std::int64_t j = 0; j < rank; ++j) {
      const float factor =
          change.scale * change.b[static_cast<std::size_t>(j * tensor.rows + begin + row)];
      const float* a = change.a.data() + j * columns;
      for (std::int64_t i = 0; i < columns; ++i) w[i] += factor * a[i];
    }
  }
  const float largest = tensor.type == GGML_TYPE_F32 || tensor.type == GGML_TYPE_BF16
                            ? std::numeric_limits<float>::max()
                            : kLargestHalf;
  for (const float value : values) {
    // Not finite, or beyond the f16 in which scales of blocks are kept.
    if (!(std::fabs(value) <= largest)) {
      throw Error(ErrorCode::numericFailure, "tensor " + std::string(tensor.source->name) +
                                                 " holds " + std::to_string(value) + ", which " +
                                                 ggml_type_name(tensor.type) + " cannot hold");
    }
  }
  ggml_quantize_chunk(tensor.type, values.data(), to, 0, count, columns, nullptr);
}

std::vector<std::uint8_t> ModelFile::next() {
  if (!started_) {
    started_ = true;
    return header();
  }
  if (tensor_ == tensors_.size()) return {};
  const Tensor& tensor = tensors_[tensor_];
  const std::int64_t count =
      std::min(tensor.rows - row_, std::max<std::int64_t>(1, kPieceElements / tensor.columns()));
  const bool last = row_ + count == tensor.rows;
  const std::uint64_t padding = last ? padded(tensor.bytes()) - tensor.bytes() : 0;
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(count) * tensor.rowBytes() +
                                  static_cast<std::size_t>(padding));
  encodeRows(tensor, row_, count, piece.data());
  row_ = last ? 0 : row_ + count;
  if (last) tensors_[tensor_++].change = {};
  return piece;
}

std::unique_ptr<ModelFile> trainedModel(Trainer& trainer, const std::string& type) {
  auto file = std::make_unique<ModelFile>(trainer.model().file, type);
  const std::vector<Lora*> loras = trainer.loras();
  for (const Lora* lora : loras)
    file->adapt(lora->module + ".weight", lora->scale, lora->a.value, lora->b.value);
  if (!loras.empty()) return file;
  for (const Parameter* p : trainer.parameters()) file->replace(p->name, p->value);
  return file;
}

std::unique_ptr<ModelFile> mergedModel(const std::string& path, std::vector<AdapterModule> modules,
                                       const std::string& type) {
  const std::unique_ptr<ModelWeights> model = loadWeights(path);
  fit(modules, *model);
  auto file = std::make_unique<ModelFile>(model->file, type);
  for (AdapterModule& module : modules)
    file->adapt(module.name + ".weight", module.scale, std::move(module.a), std::move(module.b));
  return file;
}

}  // namespace isopro::training
