#include "inference/adapter.h"

#include "inference/llama_call.h"
#include "inference/validate_adapter.h"
#include "support/error.h"

namespace isopro {

std::shared_ptr<Adapter> Adapter::load(std::shared_ptr<Model> model, const std::string& path,
                                       bool withPairs) {
  const GgufFile file = GgufFile::open(path, ErrorCode::adapterCorrupt);
  validateAdapter(file, model->inventory());
  auto adapter = std::make_shared<Adapter>();
  if (withPairs && !model->usesGpu()) adapter->pairs_ = LowRankPairs::of(file);
  adapter->model_ = std::move(model);
  adapter->adapter_.reset(
      callLlama([&] { return llama_adapter_lora_init(adapter->model_->handle(), path.c_str()); }));
  if (adapter->adapter_ == nullptr) {
    const std::string reason = takeLlamaError();
    throw Error(
        refusalIn(reason, ErrorCode::adapterCorrupt),
        "llama.cpp could not load the adapter " + path + (reason.empty() ? "" : ": " + reason));
  }
  return adapter;
}

}  // namespace isopro
