#include "inference/model.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "inference/llama_call.h"
#include "inference/llama_reading.h"
#include "inference/own_attention.h"
#include "inference/own_products.h"
#include "support/error.h"
#include "support/thread_pool.h"

namespace isopro {
namespace {

// `fault`: the code of the error where the name is none.
ggml_type kvTypeOf(const std::string& name, ErrorCode fault) {
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
    if (name == ggml_type_name(type)) return type;
  }
  throw Error(fault, "a KV cache of type " + name + "; known are f32, f16, bf16 and q8_0");
}

struct Loading {
  const LoadControl& control;
  bool threadsTried;
  std::exception_ptr refused;

  // Asked before each tensor, once there is memory for all of them.
  bool goesOn(float progress) {
    try {
      // ggml repacks matrices for AMX on as many threads of its own, and ends the process where one
      // is refused by then.
      if (!threadsTried) ThreadPool(1 + static_cast<int>(std::thread::hardware_concurrency()));
      threadsTried = true;
    } catch (...) {
      refused = std::current_exception();
      return false;
    }
    if (control.progress) control.progress(progress);
    return control.cancelled == nullptr || !control.cancelled->load();
  }
};

}  // namespace

std::shared_ptr<Model> Model::load(const ModelOptions& options, const LoadControl& control) {
  const bool usesGpu = options.gpuLayers != 0 && llama_supports_gpu_offload();
  ModelInventory inventory;
  const char* reason = nullptr;
  bool repacks = true;
  {
    const GgufFile file = GgufFile::open(options.path);
    inventory = validateModel(file);
    reason = OwnProducts::reasonAgainst(file, usesGpu);
    repacks = OwnProducts::needsRepacking(file);
  }
  if (options.matmul == Matmul::kOwn && reason != nullptr) {
    throw Error(ErrorCode::modelUnsupported,
                options.path + ": matmul 'own' has nothing to multiply: " + reason);
  }

  const bool isWanted = options.matmul == Matmul::kOwn ||
                        (options.matmul == Matmul::kAuto && OwnProducts::kIsAutomatic);
  const bool hasOwnProducts = isWanted && reason == nullptr;

  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpuLayers;
  // What ggml repacks it multiplies itself.
  params.use_extra_bufts = options.repacks && (!hasOwnProducts || repacks);
  std::array<llama_model_kv_override, 3> overrides{};
  if (inventory.shortContext > 0) {
    const auto put = [&](llama_model_kv_override& entry, const char* key, std::int64_t value) {
      entry.tag = LLAMA_KV_OVERRIDE_TYPE_INT;
      (inventory.architecture + "." + key).copy(entry.key, sizeof entry.key - 1);
      entry.val_i64 = value;
    };
    put(overrides[0], "context_length", inventory.shortContext);
    put(overrides[1], "rope.scaling.original_context_length",
        std::numeric_limits<std::int32_t>::max());
    params.kv_overrides = overrides.data();
  }
  Loading loading{control, false, nullptr};
  params.progress_callback_user_data = &loading;
  params.progress_callback = [](float progress, void* user) {
    return static_cast<Loading*>(user)->goesOn(progress);
  };

  auto model = std::make_shared<Model>();
  model->path_ = options.path;
  model->inventory_ = std::move(inventory);
  model->model_.reset(
      callLlama([&] { return llama_model_load_from_file(options.path.c_str(), params); }));
  if (loading.refused != nullptr) std::rethrow_exception(loading.refused);
  if (model->model_ == nullptr) {
    if (control.cancelled != nullptr && control.cancelled->load())
      throw Error(ErrorCode::aborted, "loading was cancelled");
    refuseUnread(options.path, takeLlamaError());
  }
  model->warnings_ = takeLlamaWarnings();
  llama_model* handle = model->handle();
  checkDecoder(handle, options.path);
  model->vocab_ = llama_model_get_vocab(handle);
  model->vocabularySize_ = llama_vocab_n_tokens(model->vocab_);
  model->tokenizer_ =
      std::make_unique<const Tokenizer>(model->vocab_, model->metadata("tokenizer.ggml.pre"));
  model->usesGpu_ = usesGpu;
  model->hasOwnProducts_ = hasOwnProducts;

  const Hyperparameters& hyper = model->inventory_.hyper;
  // The file's choice is made for ggml's attention. Ours reads f16.
  const bool ownAttention = hasOwnProducts && OwnAttention::reads(hyper);
  const std::string wanted =
      options.kvType.empty() ? model->metadata("isopro.kv_cache_type") : options.kvType;
  const ErrorCode fault =
      options.kvType.empty() ? ErrorCode::modelUnsupported : ErrorCode::invalidArgument;
  model->kvType_ = wanted.empty() ? GGML_TYPE_F16 : kvTypeOf(wanted, fault);
  if (options.kvType.empty() && ownAttention) model->kvType_ = GGML_TYPE_F16;
  const auto block = static_cast<int>(ggml_blck_size(model->kvType_));
  const CacheShape& cache = model->inventory_.cache;
  for (const std::int64_t width : cache.headWidths) {
    if (width % block != 0)
      throw Error(fault, std::string("a KV cache of type ") + ggml_type_name(model->kvType_) +
                             " needs heads of a multiple of " + std::to_string(block) +
                             " values; these have " + std::to_string(width));
  }
  model->kvBytesPerToken_ =
      cache.valuesPerToken / block * static_cast<std::int64_t>(ggml_type_size(model->kvType_));
  return model;
}

std::string Model::metadata(const char* key) const {
  const int length = llama_model_meta_val_str(handle(), key, nullptr, 0);
  if (length < 0) return {};
  std::string value(static_cast<size_t>(length) + 1, '\0');
  llama_model_meta_val_str(handle(), key, value.data(), value.size());
  value.resize(static_cast<size_t>(length));
  return value;
}

std::string Model::chatTemplate() const {
  const char* text = llama_model_chat_template(handle(), nullptr);
  return text == nullptr ? "" : text;
}

std::vector<Token> Model::tokenize(std::string_view text, bool parseControl) const {
  return tokenizer_->tokens(text, parseControl);
}

std::string Model::piece(Token token, bool withControl) const {
  char buffer[256];
  const int length = llama_token_to_piece(vocab_, token, buffer, sizeof buffer, 0, withControl);
  if (length >= 0) return std::string(buffer, static_cast<size_t>(length));
  std::string text(static_cast<size_t>(-length), '\0');
  llama_token_to_piece(vocab_, token, text.data(), -length, 0, withControl);
  return text;
}

std::string Model::detokenize(const std::vector<Token>& tokens, bool withControl) const {
  std::string text;
  for (const Token token : tokens) text += piece(token, withControl);
  return text;
}

std::shared_ptr<const Vocabulary> Model::vocabulary() const {
  std::call_once(vocabularyMade_, [&] {
    std::vector<std::string> pieces;
    std::vector<Token> ends;
    for (Token token = 0; token < vocabularySize_; ++token) {
      pieces.push_back(piece(token, false));
      if (llama_vocab_is_eog(vocab_, token)) ends.push_back(token);
    }
    vocabulary_ = std::make_shared<const Vocabulary>(std::move(pieces), std::move(ends));
  });
  return vocabulary_;
}

void Model::checkTokens(const std::vector<Token>& tokens, const char* what) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocabularySize_) {
      throw Error(ErrorCode::invalidArgument,
                  std::string(what) + ": token id " + std::to_string(tokens[i]) + " at index " +
                      std::to_string(i) + " is outside the vocabulary of " +
                      std::to_string(vocabularySize_));
    }
  }
}

}  // namespace isopro
