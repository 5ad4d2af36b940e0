// A GGUF mapped read-only: metadata and tensors by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <ggml.h>

namespace isopro::training {

class ModelFile {
 public:
  // Throws MODEL_NOT_FOUND or MODEL_CORRUPT.
  explicit ModelFile(const std::string& path);
  ~ModelFile();
  ModelFile(const ModelFile&) = delete;
  ModelFile& operator=(const ModelFile&) = delete;

  // Without a default, a missing key throws MODEL_CORRUPT; a key of another type always does.
  std::string text(const std::string& key, std::optional<std::string> absent = {}) const;
  std::int64_t integer(const std::string& key, std::optional<std::int64_t> absent = {}) const;
  float real(const std::string& key, std::optional<float> absent = {}) const;

  struct Tensor {
    const void* data;
    ggml_type type;
    std::int64_t rows, columns;
  };
  std::optional<Tensor> tensor(const std::string& name) const;

  std::size_t tensorCount() const;
  std::size_t bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isopro::training
