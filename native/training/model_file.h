// A GGUF with the source's metadata and vocabulary and other weights: trained ones, or W + s B A.
// It is encoded piece by piece, so that memory is bounded by a piece and not by the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/gguf.h"
#include "training/adapter_file.h"

namespace isopro::training {

class ModelFile {
 public:
  // Matrices are written as `type` ("f32", "f16", "bf16", "q8_0", "q4_0", "q5_0", "q4_k", "q5_k",
  // "q6_k"); as F16 where their rows are not whole blocks of it. Norms, biases and other single
  // rows keep their type, replaced ones are F32. What changes neither type nor value is copied byte
  // for byte. Throws INVALID_ARGUMENT where the type is unknown.
  ModelFile(std::shared_ptr<const GgufFile> source, const std::string& type);

  // The tensor's values instead of the source's. INVALID_ARGUMENT where the source has no such
  // tensor of that size.
  void replace(const std::string& tensor, std::vector<float> values);
  // Adds s B A to a matrix [out, in]: a is [rank, in], b [rank, out].
  void adapt(const std::string& tensor, float scale, std::vector<float> a, std::vector<float> b);

  // The file's next bytes; empty at its end. Throws NUMERIC_FAILURE where a value is not finite or
  // too large for the type.
  std::vector<std::uint8_t> next();

  std::uint64_t size();
  // Number of tensors of each type, by ggml's names.
  std::map<std::string, std::int64_t> types() const;

 private:
  struct Change {
    std::vector<float> values;  // empty: the source's
    float scale;
    std::vector<float> a, b;
  };
  struct Tensor {
    const GgufTensor* source;
    ggml_type type;
    std::int64_t rows;
    Change change;

    std::int64_t columns() const { return source->dimensions[0]; }
    std::size_t rowBytes() const { return ggml_row_size(type, columns()); }
    std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows) * rowBytes(); }
    bool copied() const {
      return type == source->type && change.values.empty() && change.a.empty();
    }
  };

  Tensor& find(const std::string& name);
  std::uint32_t fileTypeId() const;
  std::vector<std::uint8_t> header() const;
  std::uint64_t padded(std::uint64_t size) const;
  void encodeRows(const Tensor& tensor, std::int64_t begin, std::int64_t count,
                  std::uint8_t* to) const;

  std::shared_ptr<const GgufFile> source_;
  ggml_type type_;
  std::vector<Tensor> tensors_;
  bool started_ = false;
  std::size_t tensor_ = 0;  // of the next piece
  std::int64_t row_ = 0;
};

// What the trainer has trained so far, as of this call: later steps do not change it. An adapter is
// merged.
std::unique_ptr<ModelFile> trainedModel(Trainer& trainer, const std::string& type);

// The model with an adapter merged. Throws what loadWeights and fit throw.
std::unique_ptr<ModelFile> mergedModel(const std::string& model, std::vector<AdapterModule> modules,
                                       const std::string& type);

}  // namespace isopro::training
