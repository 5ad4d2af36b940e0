#include "inference/custom_node.h"

#include <cstring>
#include <memory>

#include <ggml-backend.h>

namespace isopro {

void computeBy(ggml_tensor* node, ggml_custom_op_t compute, void* self) {
  // The layout is ggml's own.
  const ggml_init_params params{2 * ggml_tensor_overhead(), nullptr, true};
  const std::unique_ptr<ggml_context, void (*)(ggml_context*)> context(ggml_init(params),
                                                                       ggml_free);
  const ggml_tensor* pattern = ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, nullptr, 0,
                                              compute, GGML_N_TASKS_MAX, self);
  std::memcpy(node->op_params, pattern->op_params, sizeof node->op_params);
  node->op = GGML_OP_CUSTOM;
}

bool inOrdinaryMemory(const ggml_tensor* tensor) {
  const ggml_tensor* owner = tensor->view_src == nullptr ? tensor : tensor->view_src;
  return owner->buffer != nullptr && ggml_backend_buffer_is_host(owner->buffer) &&
         owner->extra == nullptr;
}

}  // namespace isopro
