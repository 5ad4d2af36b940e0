// Products of our own inside ggml's graphs: against ggml's kernel and exact values, whatever
// threads. block_product_test.cpp has the kernels.
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
#include "gguf_bytes.h"
#include "inference/own_products.h"
#include "llama_backends.h"
#include "product_formats.h"

using namespace isopro;
using namespace isopro::testing;
using kernels::BlockProducts;
using kernels::kProductBlock;

namespace {

// A product of [rows, width] with weights [height, width] on ggml's CPU back end.
struct Graph {
  Graph(ggml_type type, std::int64_t width, std::int64_t height, std::int64_t rows,
        std::uint64_t seed) {
    loadLlamaBackends();
    backend.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    context.reset(ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    weights = ggml_new_tensor_2d(context.get(), type, width, height);
    x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, width, rows);
    product = ggml_mul_mat(context.get(), weights, x);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    const std::vector<std::uint8_t> bytes =
        weightsOf(type, uniformNumbers(width * height, seed), width);
    const std::vector<float> values = uniformNumbers(width * rows, seed + 1, 3);
    std::memcpy(weights->data, bytes.data(), bytes.size());
    std::memcpy(x->data, values.data(), values.size() * sizeof(float));
  }

  std::vector<float> computed(int threads) const {
    return computedBy(backend.get(), context.get(), product, threads);
  }

  std::vector<double> exact() const {
    std::vector<float> w(static_cast<std::size_t>(ggml_nelements(weights)));
    ggml_get_type_traits(weights->type)->to_float(weights->data, w.data(), ggml_nelements(weights));
    std::vector<double> values;
    for (std::int64_t row = 0; row < x->ne[1]; ++row) {
      for (std::int64_t i = 0; i < weights->ne[1]; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < x->ne[0]; ++k) {
          const float number = static_cast<const float*>(x->data)[row * x->ne[0] + k];
          sum += static_cast<double>(number) * w[static_cast<std::size_t>(i * x->ne[0] + k)];
        }
        values.push_back(sum);
      }
    }
    return values;
  }

  struct Free {
    void operator()(ggml_backend_t freed) const { ggml_backend_free(freed); }
    void operator()(ggml_context* freed) const { ggml_free(freed); }
    void operator()(ggml_backend_buffer_t freed) const { ggml_backend_buffer_free(freed); }
  };
  std::unique_ptr<ggml_backend, Free> backend;
  std::unique_ptr<ggml_context, Free> context;
  std::unique_ptr<ggml_backend_buffer, Free> buffer;
  ggml_tensor* weights;
  ggml_tensor* x;
  ggml_tensor* product;
};

double rootMeanSquare(const std::vector<float>& actual, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i)
    sum += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

}  // namespace

TEST(own_products_take_the_place_of_ggmls_and_are_as_exact_on_any_threads) {
  struct Shape {
    std::int64_t width, height, rows;
  };
  forProducts([](const BlockProducts& kernels, const ProductFormat& format) {
    for (const auto& [blocks, height, rows] : {Shape{1, 16, 4},
                                               {18, 192, 5},
                                               {2, 1536, 32},
                                               {3, 48, 130},
                                               {48, 64, 257},
                                               {2, 17, 33},
                                               {3, 95, 7},
                                               // whose last tile reaches back
                                               {3, 24, 130},
                                               {1, 1103, 33},
                                               {2, 1039, 4}}) {
      const std::int64_t width =
          (isWide(format.type) ? (blocks + 7) / 8 * 8 : blocks) * kProductBlock;
      Graph graph(format.type, width, height, rows, static_cast<std::uint64_t>(rows));
      const std::vector<double> exact = graph.exact();
      const std::vector<float> ggmls = graph.computed(1);
      const double theirs = rootMeanSquare(ggmls, exact);
      OwnProducts own(kernels, 3);
      CHECK(isProduct(graph.product));
      own.take(graph.product);
      CHECK(graph.product->op == GGML_OP_CUSTOM && isProduct(graph.product));
      const std::vector<float> values = graph.computed(1);
      CHECK(rootMeanSquare(values, exact) < 1.1 * theirs);
      // Both round x in the same way; the order of the sums alone differs.
      if (!isWide(format.type))
        CHECK(rootMeanSquare(values, {ggmls.begin(), ggmls.end()}) < 1e-4 * theirs + 1e-6);
      // A graph that llama.cpp uses again.
      own.take(graph.product);
      for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
      // The same rows among fewer others, and by themselves.
      for (const int few : {1, 2, 3, 4}) {
        Graph fewer(format.type, width, height, few, static_cast<std::uint64_t>(rows));
        std::memcpy(fewer.x->data, graph.x->data, ggml_nbytes(fewer.x));
        own.take(fewer.product);
        CHECK(fewer.product->op == GGML_OP_CUSTOM);
        const std::vector<float> first = fewer.computed(2);
        CHECK(std::equal(first.begin(), first.end(), values.begin()));
      }
    }
  });
}

// Matrices of f32 that are as short as an adapter's A or B: the sums written out, bit for bit,
// whatever the other rows, the threads and the instruction set.
TEST(own_products_of_an_adapters_pairs_are_the_sums_that_they_say) {
  struct Shape {
    std::int64_t width, height;
  };
  for (const BlockProducts* const* kernels = kernels::runnableBlockProducts(); *kernels != nullptr;
       ++kernels) {
    for (const auto& [width, height] : {Shape{576, 8},
                                        {576, 16},
                                        {1536, 64},
                                        {576, 13},
                                        {80, 64},
                                        {48, 1},
                                        {16, 64},
                                        {8, 576},
                                        {1, 16},
                                        {64, 1536},
                                        {13, 48},
                                        {65, 1536},
                                        {576, 65},
                                        {200, 576},
                                        {128, 128}}) {
      const bool widens = height % kernels::kMostLanes == 0 && (width <= 64 || width < height);
      for (const std::int64_t rows : {1, 3, 4, 5, 150}) {
        Graph graph(GGML_TYPE_F32, width, height, rows, 9);
        OwnProducts own(**kernels, 3);
        own.take(graph.product);
        CHECK(graph.product->op == GGML_OP_CUSTOM && isProduct(graph.product));
        const std::vector<float> values = graph.computed(1);
        for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
        const auto* x = static_cast<const float*>(graph.x->data);
        const auto* w = static_cast<const float*>(graph.weights->data);
        int different = 0;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < height; ++i) {
            float sums[kernels::kMostLanes] = {};
            for (std::int64_t k = 0; k < width; ++k) {
              float& sum = sums[widens ? 0 : k % kernels::kMostLanes];
              sum = std::fma(x[row * width + k], w[i * width + k], sum);
            }
            for (std::int64_t half = widens ? 0 : kernels::kMostLanes / 2; half > 0; half /= 2) {
              for (std::int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[half + lane];
            }
            different += sums[0] == values[static_cast<std::size_t>(row * height + i)] ? 0 : 1;
          }
        }
        CHECK(different == 0);
      }
    }
    OwnProducts own(**kernels, 1);
    Graph other(GGML_TYPE_F32, 17, 17, 4, 9);
    own.take(other.product);
    CHECK(other.product->op == GGML_OP_MUL_MAT);
  }
}

// As the graph of one adapter for all rows computes it, bit for bit.
TEST(own_products_add_an_adapters_pair_to_a_row_as_the_graph_does) {
  for (const BlockProducts* const* kernels = kernels::runnableBlockProducts(); *kernels != nullptr;
       ++kernels) {
    for (const std::int64_t rank : {1, 8, 70}) {
      constexpr std::int64_t kInputs = 96, kOutputs = 192;
      const auto& lowRank = (*kernels)->lowRank;
      const std::vector<float> x = uniformNumbers(kInputs, 1),
                               a = uniformNumbers(rank * kInputs, 2),
                               b = uniformNumbers(kOutputs * rank, 3);
      std::vector<float> y = uniformNumbers(kOutputs, 4), expected = y, transposed(b.size()),
                         inner(static_cast<std::size_t>(rank)), wide(kOutputs);
      for (std::int64_t o = 0; o < kOutputs; ++o) {
        for (std::int64_t k = 0; k < rank; ++k)
          transposed[static_cast<std::size_t>(k * kOutputs + o)] =
              b[static_cast<std::size_t>(o * rank + k)];
      }
      lowRank.narrow(a.data(), rank, kInputs, x.data(), 1, inner.data());
      for (std::int64_t o = 0; o < kOutputs; o += kernels::kMostLanes)
        lowRank.widen(b.data() + o * rank, rank, inner.data(), 1, wide.data() + o, kOutputs);
      for (std::size_t o = 0; o < kOutputs; ++o) {
        const volatile float scaled = wide[o] * 0.3f;
        expected[o] += scaled;
      }
      std::fill(inner.begin(), inner.end(), NAN);
      lowRank.add(x.data(), a.data(), transposed.data(), 0.3f, rank, kInputs, kOutputs,
                  inner.data(), y.data());
      CHECK(y == expected);
    }
  }
}

TEST(own_products_leave_what_they_have_no_kernel_for) {
  forProducts([](const BlockProducts& kernels, const ProductFormat& format) {
    OwnProducts own(kernels, 1);
    // Of 8 lanes or 16: which products are ours is the same with every instruction set.
    Graph low(format.type, 256, 15, 3, 1), half(format.type, 256, 8, 8, 2),
        even(format.type, 256, 32, 3, 3);
    ggml_tensor* apart = ggml_mul_mat(even.context.get(), even.weights,
                                      ggml_view_2d(even.context.get(), even.x, 256, 2, 2048, 0));
    for (ggml_tensor* node : {low.product, half.product, apart}) {
      own.take(node);
      CHECK(node->op == GGML_OP_MUL_MAT);
    }
    Graph unknown(GGML_TYPE_Q5_1, 64, 32, 3, 4);
    own.take(unknown.product);
    CHECK(unknown.product->op == GGML_OP_MUL_MAT);
  });
}

// What ggml repacks it multiplies itself, faster than it would otherwise: only where we have no
// kernel.
TEST(own_products_let_ggml_repack_where_a_format_has_no_kernel_of_ours) {
  struct Case {
    std::vector<ggml_type> types;
    int rank;
    bool repacks, knowsAll;
  };
  for (const auto& [types, rank, repacks, knowsAll] :
       {Case{{GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_F32}, 2, false, true},
        {{GGML_TYPE_Q4_0, GGML_TYPE_MXFP4, GGML_TYPE_Q5_K, GGML_TYPE_IQ4_XS}, 2, false, true},
        {{GGML_TYPE_Q4_K, GGML_TYPE_Q3_K}, 2, false, false},
        {{GGML_TYPE_Q4_K, GGML_TYPE_IQ4_NL}, 2, true, false},
        {{GGML_TYPE_Q8_0, GGML_TYPE_Q2_K}, 2, true, false},
        {{GGML_TYPE_Q8_0}, 3, false, false},
        {{GGML_TYPE_Q4_K}, 3, true, false}}) {
    test::Bytes bytes;
    bytes.header(types.size(), 0);
    std::size_t offset = 0;
    const std::vector<std::uint64_t> dimensions = {256, 16, 2};
    for (const ggml_type type : types) {
      bytes.tensor(std::to_string(offset), {dimensions.begin(), dimensions.begin() + rank}, type,
                   offset);
      offset += (ggml_row_size(type, 256 * 16) * (rank == 3 ? 2 : 1) + 31) / 32 * 32;
    }
    bytes.pad(32).resize(bytes.size() + offset);
    const GgufFile file = bytes.parse();
    CHECK(OwnProducts::needsRepacking(file) == repacks);
    CHECK(OwnProducts::knowsAllFormats(file) == knowsAll);
  }
}
