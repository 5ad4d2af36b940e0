#include "inference/adapter.h"

#include "inference/validate_adapter.h"
#include "support/error.h"

namespace isopro {

std::shared_ptr<Adapter> Adapter::load(std::shared_ptr<Model> model, const std::string& path) {
  validateAdapter(GgufFile::open(path, "ADAPTER_CORRUPT"), model->inventory());
  takeLlamaError();
  auto adapter = std::make_shared<Adapter>();
  adapter->model_ = std::move(model);
  adapter->adapter_.reset(llama_adapter_lora_init(adapter->model_->handle(), path.c_str()));
  if (adapter->adapter_ == nullptr) {
    const std::string reason = takeLlamaError();
    throw Error("ADAPTER_CORRUPT", "llama.cpp could not load the adapter " + path + (reason.empty() ? "" : ": " + reason));
  }
  return adapter;
}

}  // namespace isopro
