#include "training/model_file.h"

#include <fcntl.h>
#include <gguf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/error.h"

namespace isopro::training {

struct ModelFile::State {
  gguf_context* gguf = nullptr;
  ggml_context* shapes = nullptr;
  void* mapping = MAP_FAILED;
  std::size_t size = 0;

  ~State() {
    if (mapping != MAP_FAILED) munmap(mapping, size);
    if (gguf != nullptr) gguf_free(gguf);
    if (shapes != nullptr) ggml_free(shapes);
  }
};

ModelFile::ModelFile(const std::string& path) : state_(std::make_unique<State>()) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw Error("MODEL_NOT_FOUND", "cannot open " + path);
  struct stat status {};
  if (fstat(descriptor, &status) == 0 && status.st_size > 0) {
    state_->size = static_cast<std::size_t>(status.st_size);
    state_->mapping = mmap(nullptr, state_->size, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  close(descriptor);
  if (state_->mapping == MAP_FAILED) throw Error("MODEL_CORRUPT", path + " cannot be mapped");
  state_->gguf = gguf_init_from_file(path.c_str(), {true, &state_->shapes});
  if (state_->gguf == nullptr) throw Error("MODEL_CORRUPT", path + " is not a readable GGUF");
}

ModelFile::~ModelFile() = default;

namespace {

[[noreturn]] void missing(const std::string& key) { throw Error("MODEL_CORRUPT", "metadata " + key + " is missing"); }
[[noreturn]] void wrongType(const std::string& key) { throw Error("MODEL_CORRUPT", "metadata " + key + " has an unexpected type"); }

}  // namespace

std::string ModelFile::text(const std::string& key, std::optional<std::string> absent) const {
  const auto id = gguf_find_key(state_->gguf, key.c_str());
  if (id < 0) return absent ? *absent : (missing(key), "");
  if (gguf_get_kv_type(state_->gguf, id) != GGUF_TYPE_STRING) wrongType(key);
  return gguf_get_val_str(state_->gguf, id);
}

std::int64_t ModelFile::integer(const std::string& key, std::optional<std::int64_t> absent) const {
  const auto id = gguf_find_key(state_->gguf, key.c_str());
  if (id < 0) return absent ? *absent : (missing(key), 0);
  switch (gguf_get_kv_type(state_->gguf, id)) {
    case GGUF_TYPE_UINT32: return gguf_get_val_u32(state_->gguf, id);
    case GGUF_TYPE_INT32: return gguf_get_val_i32(state_->gguf, id);
    case GGUF_TYPE_UINT64: return static_cast<std::int64_t>(gguf_get_val_u64(state_->gguf, id));
    default: wrongType(key);
  }
}

float ModelFile::real(const std::string& key, std::optional<float> absent) const {
  const auto id = gguf_find_key(state_->gguf, key.c_str());
  if (id < 0) return absent ? *absent : (missing(key), 0.0f);
  if (gguf_get_kv_type(state_->gguf, id) != GGUF_TYPE_FLOAT32) wrongType(key);
  return gguf_get_val_f32(state_->gguf, id);
}

std::optional<ModelFile::Tensor> ModelFile::tensor(const std::string& name) const {
  const auto id = gguf_find_tensor(state_->gguf, name.c_str());
  if (id < 0) return {};
  const ggml_tensor* shape = ggml_get_tensor(state_->shapes, name.c_str());
  const std::size_t offset = gguf_get_data_offset(state_->gguf) + gguf_get_tensor_offset(state_->gguf, id);
  if (offset > state_->size || ggml_nbytes(shape) > state_->size - offset) {
    throw Error("MODEL_CORRUPT", "tensor " + name + " lies beyond the end of the file");
  }
  return Tensor{static_cast<const std::byte*>(state_->mapping) + offset, shape->type, ggml_nrows(shape), shape->ne[0]};
}

std::size_t ModelFile::tensorCount() const { return static_cast<std::size_t>(gguf_get_n_tensors(state_->gguf)); }

std::size_t ModelFile::bytes() const { return state_->size; }

}  // namespace isopro::training
