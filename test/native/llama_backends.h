// llama.cpp's back ends, which lie beside the tests; loaded once a process.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include <ggml-backend.h>
#include <llama.h>

#include "check.h"

namespace isopro::testing {

inline void loadLlamaBackends() {
  static const bool loaded = [] {
    ggml_backend_load_all();
    llama_log_set(
        [](ggml_log_level level, const char* text, void*) {
          if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
        },
        nullptr);
    llama_backend_init();
    return true;
  }();
  static_cast<void>(loaded);
}

// The node's values, of f32, as that many of the back end's threads compute its graph.
inline std::vector<float> computedBy(ggml_backend_t backend, ggml_context* context,
                                     ggml_tensor* node, int threads) {
  const auto setThreads =
      reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(ggml_backend_get_device(backend)),
          "ggml_backend_set_n_threads"));
  setThreads(backend, threads);
  ggml_cgraph* graph = ggml_new_graph_custom(context, 8, false);
  ggml_build_forward_expand(graph, node);
  std::vector<float> values(static_cast<std::size_t>(ggml_nelements(node)), NAN);
  std::memcpy(node->data, values.data(), values.size() * sizeof(float));
  CHECK(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS);
  std::memcpy(values.data(), node->data, values.size() * sizeof(float));
  return values;
}

}  // namespace isopro::testing
