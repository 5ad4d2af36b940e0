// A loaded base model: weights and vocabulary. Immutable after loading, so its const functions may
// be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <llama.h>

#include "inference/llama_call.h"
#include "inference/tokenizer.h"
#include "inference/validate_model.h"
#include "inference/vocabulary.h"

namespace isopro {

// Whose kernels multiply with the weights (own_products.h).
enum class Matmul { kGgml, kOwn, kAuto };  // kAuto: ours where they have something to do

struct ModelOptions {
  std::string path;
  int gpuLayers = 0;   // -1: all
  std::string kvType;  // f32, f16, bf16 or q8_0; empty: f16 where attention is ours
                       // (own_attention.h), else the file's isopro.kv_cache_type, else f16
  Matmul matmul = Matmul::kGgml;
  bool repacks = true;  // ggml may keep copies of matrices in another order, which it multiplies
                        // faster
};

// progress in [0, 1]; cancelled is polled between tensors.
struct LoadControl {
  std::function<void(float)> progress;
  const std::atomic<bool>* cancelled = nullptr;
};

class Model {
 public:
  // Validates the file, then loads it.
  // Throws INVALID_ARGUMENT, MODEL_NOT_FOUND, MODEL_CORRUPT, MODEL_UNSUPPORTED, ARCH_UNSUPPORTED,
  // OUT_OF_MEMORY, SYSTEM_LIMIT, ABORTED.
  static std::shared_ptr<Model> load(const ModelOptions& options, const LoadControl& control);

  llama_model* handle() const { return model_.get(); }
  const llama_vocab* vocab() const { return vocab_; }
  const std::string& path() const { return path_; }
  const ModelInventory& inventory() const { return inventory_; }
  bool usesGpu() const { return usesGpu_; }
  bool hasOwnProducts() const { return hasOwnProducts_; }

  // Of llama.cpp, as it loaded the file.
  const std::vector<std::string>& warnings() const { return warnings_; }

  int vocabularySize() const { return vocabularySize_; }
  int layers() const { return llama_model_n_layer(handle()); }
  int embeddingSize() const { return llama_model_n_embd(handle()); }
  int trainedContext() const { return llama_model_n_ctx_train(handle()); }
  // Type of the cached keys and values.
  ggml_type kvType() const { return kvType_; }
  // Bytes of keys and values that one token occupies in all layers.
  std::int64_t kvBytesPerToken() const { return kvBytesPerToken_; }
  // Bytes that a sequence occupies whatever its length: the state of a recurrent model.
  std::int64_t stateBytes() const { return inventory_.cache.stateBytes; }
  // Whether each sample is evaluated by itself, in calls of its own: what the model keeps of a text
  // cannot be shared, copied in part or cut.
  bool evaluatesAlone() const { return inventory_.memory != SequenceMemory::kCells; }
  // Whether the architecture has a validator, and thus a graph that this engine knows.
  bool isKnown() const { return findArchitecture(inventory_.architecture) != nullptr; }

  std::string metadata(const char* key) const;  // empty where the key is absent
  std::string chatTemplate() const;             // empty where the file has none

  // As Tokenizer::tokens.
  std::vector<Token> tokenize(std::string_view text, bool parseControl) const;
  // As Tokenizer::isInjective.
  bool tokenizesInjectively() const { return tokenizer_->isInjective(); }
  // Bytes of one token; empty for a control token unless withControl.
  std::string piece(Token token, bool withControl) const;
  std::string detokenize(const std::vector<Token>& tokens, bool withControl) const;
  // The bytes of all tokens; made at the first call.
  std::shared_ptr<const Vocabulary> vocabulary() const;

  // Throws INVALID_ARGUMENT where an id is outside the vocabulary.
  void checkTokens(const std::vector<Token>& tokens, const char* what) const;

 private:
  struct ModelDeleter {
    void operator()(llama_model* model) const {
      freeLlama([&] { llama_model_free(model); });
    }
  };

  std::unique_ptr<llama_model, ModelDeleter> model_;
  const llama_vocab* vocab_ = nullptr;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::string path_;
  std::vector<std::string> warnings_;
  ModelInventory inventory_;
  int vocabularySize_ = 0;
  mutable std::once_flag vocabularyMade_;
  mutable std::shared_ptr<const Vocabulary> vocabulary_;
  ggml_type kvType_ = GGML_TYPE_F16;
  std::int64_t kvBytesPerToken_ = 0;
  bool usesGpu_ = false;
  bool hasOwnProducts_ = false;
};

}  // namespace isopro
