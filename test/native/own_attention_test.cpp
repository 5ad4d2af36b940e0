// Attention of our own inside ggml's graphs: against ggml's kernel and exact values, whatever
// threads, company and places in the cache.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "check.h"
#include "inference/context.h"
#include "inference/own_attention.h"
#include "llama_backends.h"
#include "support/random.h"

using namespace isopro;
using kernels::AttentionRows;

namespace {

struct AttentionShape {
  std::int64_t width, heads, keyHeads, rows, streams;
};

// Rows of `shape` over cells of which each row sees those that `sees` says, on ggml's CPU back end.
struct AttentionGraph {
  using Sees = std::function<bool(std::int64_t row, std::int64_t cell)>;

  AttentionGraph(const AttentionShape& of, std::int64_t cells, const Sees& sees, float cap = 0,
                 ggml_type type = GGML_TYPE_F16)
      : shape(of) {
    isopro::testing::loadLlamaBackends();
    backend.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    context.reset(
        ggml_init({16 * ggml_tensor_overhead() + 4 * ggml_graph_overhead(), nullptr, true}));
    q = ggml_new_tensor_4d(context.get(), GGML_TYPE_F32, of.width, of.rows, of.heads, of.streams);
    k = ggml_new_tensor_4d(context.get(), type, of.width, cells, of.keyHeads, of.streams);
    v = ggml_new_tensor_4d(context.get(), type, of.width, cells, of.keyHeads, of.streams);
    mask = ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, cells, of.rows, 1, of.streams);
    node = ggml_flash_attn_ext(context.get(), q, k, v, mask,
                               1 / std::sqrt(static_cast<float>(of.width)), 0, cap);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    auto* masked = static_cast<ggml_fp16_t*>(mask->data);
    for (std::int64_t i = 0; i < of.rows * of.streams; ++i) {
      for (std::int64_t cell = 0; cell < cells; ++cell)
        *masked++ = ggml_fp32_to_fp16(sees(i, cell) ? 0 : -INFINITY);
    }
    Random random(7);
    float* query = static_cast<float*>(q->data);
    for (std::int64_t i = 0; i < ggml_nelements(q); ++i)
      query[i] = static_cast<float>(random.nextDouble() * 6 - 3);
    for (ggml_tensor* tensor : {k, v}) {
      std::vector<float> values(static_cast<std::size_t>(ggml_nelements(tensor)));
      for (float& value : values) value = static_cast<float>(random.nextDouble() * 4 - 2);
      if (type == GGML_TYPE_F32) {
        std::memcpy(tensor->data, values.data(), ggml_nbytes(tensor));
      } else {
        ggml_get_type_traits(type)->from_float_ref(values.data(), tensor->data,
                                                   ggml_nelements(tensor));
      }
    }
  }

  std::vector<float> computed(int threads) const {
    return computedBy(backend.get(), context.get(), node, threads);
  }

  std::vector<double> exact() const {
    const std::int64_t cells = k->ne[1];
    const auto halfAt = [](const ggml_tensor* tensor, std::int64_t i) {
      return static_cast<double>(
          ggml_fp16_to_fp32(static_cast<const ggml_fp16_t*>(tensor->data)[i]));
    };
    std::vector<double> values;
    for (std::int64_t stream = 0; stream < shape.streams; ++stream) {
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        for (std::int64_t head = 0; head < shape.heads; ++head) {
          const std::int64_t keyHead =
              stream * shape.keyHeads + head / (shape.heads / shape.keyHeads);
          const float* query = static_cast<const float*>(q->data) +
                               ((stream * shape.heads + head) * shape.rows + row) * shape.width;
          std::vector<double> weights;
          double most = -INFINITY, total = 0;
          for (std::int64_t cell = 0; cell < cells; ++cell) {
            double score = halfAt(mask, (stream * shape.rows + row) * cells + cell);
            for (std::int64_t i = 0; i < shape.width; ++i) {
              score += query[i] * halfAt(k, (keyHead * cells + cell) * shape.width + i) /
                       std::sqrt(static_cast<double>(shape.width));
            }
            weights.push_back(score);
            most = std::max(most, score);
          }
          for (double& weight : weights) total += weight = std::exp(weight - most);
          for (std::int64_t i = 0; i < shape.width; ++i) {
            double sum = 0;
            for (std::int64_t cell = 0; cell < cells; ++cell) {
              sum += weights[static_cast<std::size_t>(cell)] / total *
                     halfAt(v, (keyHead * cells + cell) * shape.width + i);
            }
            values.push_back(sum);
          }
        }
      }
    }
    return values;
  }

  struct Free {
    void operator()(ggml_backend_t freed) const { ggml_backend_free(freed); }
    void operator()(ggml_context* freed) const { ggml_free(freed); }
    void operator()(ggml_backend_buffer_t freed) const { ggml_backend_buffer_free(freed); }
  };
  AttentionShape shape;
  std::unique_ptr<ggml_backend, Free> backend;
  std::unique_ptr<ggml_context, Free> context;
  std::unique_ptr<ggml_backend_buffer, Free> buffer;
  ggml_tensor *q, *k, *v, *mask, *node;
};

double attentionError(const std::vector<float>& actual, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    sum += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

void forKernels(const std::function<void(const AttentionRows&)>& body) {
  for (const AttentionRows* const* rows = kernels::runnableAttentionRows(); *rows != nullptr;
       ++rows)
    body(**rows);
}

// A row sees every cell up to a number of its own, but each third.
bool sees(std::int64_t row, std::int64_t cell) { return cell <= 3 * row + 2 && cell % 3 != 1; }

}  // namespace

TEST(own_attention_is_nearer_to_exact_than_ggmls_and_the_same_on_any_threads_and_processor) {
  for (const AttentionShape& shape : {AttentionShape{64, 9, 3, 70, 1},
                                      {64, 14, 2, 3, 1},
                                      {128, 16, 2, 5, 2},
                                      {80, 4, 4, 9, 1},
                                      {16, 5, 1, 1, 3}}) {
    for (const std::int64_t cells : {7, 48, 231}) {
      std::vector<float> first;
      forKernels([&](const AttentionRows& kernel) {
        AttentionGraph graph(shape, cells, sees);
        const std::vector<double> exact = graph.exact();
        const double theirs = attentionError(graph.computed(1), exact);
        OwnAttention own(kernel, 3);
        own.take(graph.node);
        CHECK(graph.node->op == GGML_OP_CUSTOM);
        const std::vector<float> values = graph.computed(1);
        CHECK(attentionError(values, exact) < std::min(theirs, 1e-6));
        own.take(graph.node);  // of a graph that llama.cpp uses again
        for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
        if (first.empty()) first = values;
        CHECK(values == first);
      });
    }
  }
}

// What `deterministic` and fixed threads rest on: where the engine lets fewer threads compute, the
// bits are those of any number.
TEST(attention_of_one_row_has_the_same_bits_on_any_threads_where_the_engine_says_so) {
  const auto all = [](std::int64_t, std::int64_t) { return true; };
  for (const std::int64_t cells : {511, 512, 4096}) {
    for (const AttentionShape& shape : {AttentionShape{64, 9, 3, 1, 1}, {128, 4, 4, 1, 1}}) {
      forKernels([&](const AttentionRows& kernel) {
        AttentionGraph graph(shape, cells, all);
        OwnAttention own(kernel, 4);
        own.take(graph.node);
        CHECK(graph.node->op == GGML_OP_CUSTOM);
        CHECK(!sameWithAnyThreads(1, 4096, GGML_TYPE_F16, false));
        const std::vector<float> values = graph.computed(1);
        for (const int threads : {2, 4}) CHECK(graph.computed(threads) == values);
      });
      for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
        if (!sameWithAnyThreads(1, static_cast<int>(cells), type, false)) continue;
        const AttentionGraph graph(shape, cells, all, 0, type);
        const std::vector<float> values = graph.computed(1);
        for (const int threads : {2, 4}) {
          check::report(graph.computed(threads) == values, __FILE__, __LINE__,
                        std::string(ggml_type_name(type)) + ", " + std::to_string(cells) +
                            " cells: other bits on " + std::to_string(threads) + " threads");
        }
      }
    }
  }
}

// What stands between a row's own cells, and who asks beside it, is no part of its sums.
TEST(own_attention_of_a_row_is_that_of_its_own_cells_alone) {
  forKernels([](const AttentionRows& kernel) {
    const AttentionShape shape{64, 6, 2, 1, 1};
    const auto computed = [&](std::int64_t rows, std::int64_t step, std::int64_t cells) {
      AttentionGraph graph({64, 6, 2, rows, 1}, cells, [&](std::int64_t row, std::int64_t cell) {
        return row == 0 ? cell % step == 0 && cell < 37 * step : true;
      });
      AttentionGraph plain(shape, 37, [](std::int64_t, std::int64_t) { return true; });
      for (std::int64_t head = 0; head < 6; ++head) {
        std::memcpy(static_cast<float*>(graph.q->data) + head * rows * 64,
                    static_cast<float*>(plain.q->data) + head * 64, 64 * sizeof(float));
      }
      for (const auto& [to, from] : {std::pair{graph.k, plain.k}, {graph.v, plain.v}}) {
        for (std::int64_t head = 0; head < 2; ++head) {
          for (std::int64_t cell = 0; cell < 37; ++cell) {
            std::memcpy(static_cast<ggml_fp16_t*>(to->data) + (head * cells + cell * step) * 64,
                        static_cast<ggml_fp16_t*>(from->data) + (head * 37 + cell) * 64,
                        64 * sizeof(ggml_fp16_t));
          }
        }
      }
      OwnAttention own(kernel, 2);
      own.take(graph.node);
      const std::vector<float> values = graph.computed(2);
      return std::vector<float>(values.begin(), values.begin() + 6 * 64);
    };
    const std::vector<float> alone = computed(1, 1, 37);
    CHECK(computed(1, 3, 200) == alone);
    CHECK(computed(40, 5, 250) == alone);
    CHECK(computed(2, 1, 64) == alone);
  });
}

TEST(own_attention_leaves_what_it_has_no_kernel_for_and_a_row_that_sees_nothing_is_zero) {
  forKernels([](const AttentionRows& kernel) {
    OwnAttention own(kernel, 1);
    AttentionGraph capped({64, 2, 1, 3, 1}, 16, sees, 30), narrow({40, 2, 1, 3, 1}, 16, sees);
    for (const AttentionGraph* graph : {&capped, &narrow}) {
      own.take(graph->node);
      CHECK(graph->node->op == GGML_OP_FLASH_ATTN_EXT);
    }
    AttentionGraph blind({64, 2, 1, 2, 1}, 16,
                         [](std::int64_t row, std::int64_t) { return row == 1; });
    own.take(blind.node);
    const std::vector<float> values = blind.computed(1);
    CHECK(
        std::all_of(values.begin(), values.begin() + 128, [](float value) { return value == 0; }));
    CHECK(std::any_of(values.begin() + 128, values.end(), [](float value) { return value != 0; }));
  });
}
