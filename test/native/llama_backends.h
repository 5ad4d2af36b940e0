// llama.cpp's back ends, which lie beside the tests; loaded once a process.
#pragma once

#include <cstdio>

#include <ggml-backend.h>
#include <llama.h>

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

}  // namespace isopro::testing
