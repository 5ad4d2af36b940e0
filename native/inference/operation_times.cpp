#include "inference/operation_times.h"

#include <cstring>

#include <ggml-backend.h>

#include "inference/own_operations.h"
#include "inference/own_products.h"
#include "support/cpu.h"

namespace isopro {
namespace {

std::string operationOf(const ggml_tensor* node) {
  if (isProduct(node)) return std::string("product ") + ggml_type_name(node->src[0]->type);
  if (node->op == GGML_OP_MUL_MAT_ID)
    return std::string("product of experts ") + ggml_type_name(node->src[0]->type);
  if (const char* between = OwnOperations::nameOf(node)) return between;
  if (node->op == GGML_OP_FLASH_ATTN_EXT || node->op == GGML_OP_CUSTOM) return "attention";
  std::string name = ggml_op_desc(node);
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

std::string computerOf(const ggml_tensor* node) {
  if (node->op == GGML_OP_CUSTOM) return "own";
  const ggml_tensor* weights = node->src[0];
  if (weights == nullptr || weights->buffer == nullptr) return "ggml";
  if (!ggml_backend_buffer_is_host(weights->buffer)) {
    const char* name = ggml_backend_buffer_name(weights->buffer);
    if (std::strstr(name, "REPACK") != nullptr) return "repacked";
    return std::strstr(name, "AMX") != nullptr ? "amx" : "gpu";
  }
  return weights->extra != nullptr ? "repacked" : "ggml";
}

}  // namespace

bool OperationTimes::counts(const ggml_tensor* node) {
  switch (node->op) {
    case GGML_OP_NONE:
    case GGML_OP_VIEW:
    case GGML_OP_RESHAPE:
    case GGML_OP_PERMUTE:
    case GGML_OP_TRANSPOSE:
      return false;
    default:
      return true;
  }
}

void OperationTimes::begin(const ggml_tensor* node) {
  running_ = &costs_[{operationOf(node), computerOf(node)}];
  wall_ = wallNanoseconds();
  processor_ = processCpuNanoseconds();
}

void OperationTimes::end() {
  if (running_ == nullptr) return;
  ++running_->nodes;
  running_->seconds += static_cast<double>(wallNanoseconds() - wall_) * 1e-9;
  running_->processorSeconds += static_cast<double>(processCpuNanoseconds() - processor_) * 1e-9;
  running_ = nullptr;
}

}  // namespace isopro
