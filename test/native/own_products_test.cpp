// Products of our own inside ggml's graphs: against the same sums written out, against ggml's kernel and exact values, whatever threads.
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
#include "inference/own_products.h"
#include "llama_backends.h"
#include "support/random.h"

using namespace isopro;
using kernels::BlockProduct;
using kernels::kProductBlock;

namespace {

std::vector<float> draw(std::int64_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>((random.nextDouble() * 2 - 1) * scale);
  return values;
}

std::vector<std::uint8_t> quantised(const std::vector<float>& weights, std::int64_t width) {
  const std::int64_t rows = static_cast<std::int64_t>(weights.size()) / width;
  std::vector<std::uint8_t> bytes(ggml_row_size(GGML_TYPE_Q4_1, width) * static_cast<std::size_t>(rows));
  ggml_quantize_chunk(GGML_TYPE_Q4_1, weights.data(), bytes.data(), 0, rows, width, nullptr);
  return bytes;
}

// A product of [rows, width] with weights [height, width] on ggml's CPU back end.
struct Graph {
  Graph(std::int64_t width, std::int64_t height, std::int64_t rows, std::uint64_t seed) {
    isopro::testing::loadLlamaBackends();
    backend.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    context.reset(ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
    weights = ggml_new_tensor_2d(context.get(), GGML_TYPE_Q4_1, width, height);
    x = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, width, rows);
    product = ggml_mul_mat(context.get(), weights, x);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    const std::vector<std::uint8_t> bytes = quantised(draw(width * height, seed), width);
    const std::vector<float> values = draw(width * rows, seed + 1, 3);
    std::memcpy(weights->data, bytes.data(), bytes.size());
    std::memcpy(x->data, values.data(), values.size() * sizeof(float));
  }

  std::vector<float> computed(int threads) const {
    ggml_backend_dev_t device = ggml_backend_get_device(backend.get());
    const auto setThreads = reinterpret_cast<ggml_backend_set_n_threads_t>(
        ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_set_n_threads"));
    setThreads(backend.get(), threads);
    ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 4, false);
    ggml_build_forward_expand(graph, product);
    std::vector<float> values(static_cast<std::size_t>(ggml_nelements(product)), NAN);
    std::memcpy(product->data, values.data(), values.size() * sizeof(float));
    CHECK(ggml_backend_graph_compute(backend.get(), graph) == GGML_STATUS_SUCCESS);
    std::memcpy(values.data(), product->data, values.size() * sizeof(float));
    return values;
  }

  std::vector<double> exact() const {
    std::vector<float> w(static_cast<std::size_t>(ggml_nelements(weights)));
    ggml_get_type_traits(GGML_TYPE_Q4_1)->to_float(weights->data, w.data(), ggml_nelements(weights));
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
  for (std::size_t i = 0; i < actual.size(); ++i) sum += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

void forProducts(const std::function<void(const BlockProduct&)>& body) {
  for (const BlockProduct* const* product = kernels::runnableBlockProducts(); *product != nullptr; ++product) body(**product);
}

}  // namespace

// Bit for bit: the order of the sums is the same in every instruction set and for any number of rows.
TEST(own_products_are_the_sums_that_they_say) {
  forProducts([](const BlockProduct& kernel) {
    for (const std::int64_t rows : {1, 2, 3, 4, 7, 8, 21}) {
      const std::int64_t blocks = 1 + rows, width = blocks * kProductBlock;
      std::vector<float> x = draw(rows * width, 5, 10);
      for (std::int64_t k = 0; k < kProductBlock; ++k) x[static_cast<std::size_t>(k)] = 0;
      const std::vector<std::uint8_t> weights = quantised(draw(kernel.lanes * width, 6), width);
      const std::size_t rowBytes = ggml_row_size(GGML_TYPE_Q4_1, width);
      std::vector<std::int8_t> q(x.size());
      std::vector<float> scales(static_cast<std::size_t>(2 * rows * blocks));
      std::vector<float> tileScales(static_cast<std::size_t>(2 * kernel.lanes * blocks));
      std::vector<std::uint8_t> tile(static_cast<std::size_t>(kernel.lanes * width));
      std::vector<float> y(static_cast<std::size_t>(rows * kernel.lanes));
      kernel.quantise(x.data(), rows * blocks, q.data(), scales.data());
      kernel.unpack(weights.data(), rowBytes, blocks, tile.data(), tileScales.data());
      kernel.multiply(tile.data(), tileScales.data(), blocks, q.data(), scales.data(), rows, y.data(), kernel.lanes);
      if (rows < kernels::kUnpackedRows) {
        std::vector<float> packed(y.size());
        kernel.multiplyPacked(weights.data(), rowBytes, blocks, q.data(), scales.data(), rows, packed.data(), kernel.lanes);
        CHECK(packed == y);
      }
      int different = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t lane = 0; lane < kernel.lanes; ++lane) {
          float sum = 0;
          for (std::int64_t block = 0; block < blocks; ++block) {
            const float* from = x.data() + row * width + block * kProductBlock;
            float most = 0;
            for (int k = 0; k < kProductBlock; ++k) most = std::max(most, std::fabs(from[k]));
            const std::uint8_t* packed = weights.data() + static_cast<std::size_t>(lane) * rowBytes + block * 20;
            std::uint16_t d, m;
            std::memcpy(&d, packed, 2);
            std::memcpy(&m, packed + 2, 2);
            int dot = 0, total = 0;
            for (int k = 0; k < kProductBlock; ++k) {
              const int number = static_cast<int>(std::nearbyint(from[k] * (most == 0 ? 0 : 127 / most)));
              dot += number * (k < 16 ? packed[4 + k] & 15 : packed[4 + k - 16] >> 4);
              total += number;
            }
            const float scale = most / 127;
            const auto asHalf = [](float value) { return ggml_fp16_to_fp32(ggml_fp32_to_fp16(value)); };
            sum = std::fma(ggml_fp16_to_fp32(d) * asHalf(scale), static_cast<float>(dot), sum);
            sum = std::fma(ggml_fp16_to_fp32(m), asHalf(scale * static_cast<float>(total)), sum);
          }
          different += sum == y[static_cast<std::size_t>(row * kernel.lanes + lane)] ? 0 : 1;
        }
      }
      CHECK(different == 0);
    }
  });
}

TEST(own_products_take_the_place_of_ggmls_and_are_as_exact_on_any_threads) {
  struct Shape {
    std::int64_t width, height, rows;
  };
  forProducts([](const BlockProduct& kernel) {
    for (const auto& [width, height, rows] : {Shape{32, 16, 4}, {576, 192, 5}, {64, 1536, 32}, {96, 48, 130}, {1536, 64, 257}}) {
      Graph graph(width, height, rows, static_cast<std::uint64_t>(rows));
      const std::vector<double> exact = graph.exact();
      const std::vector<float> ggmls = graph.computed(1);
      const double theirs = rootMeanSquare(ggmls, exact);
      OwnProducts own(kernel, 3);
      CHECK(isProduct(graph.product));
      own.take(graph.product);
      CHECK(graph.product->op == GGML_OP_CUSTOM && isProduct(graph.product));
      const std::vector<float> values = graph.computed(1);
      CHECK(rootMeanSquare(values, exact) < 1.1 * theirs);
      // Both round x in the same way; the order of the sums alone differs.
      CHECK(rootMeanSquare(values, {ggmls.begin(), ggmls.end()}) < 1e-4 * theirs + 1e-6);
      // A graph that llama.cpp uses again.
      own.take(graph.product);
      for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
      // The same rows among fewer others, and by themselves.
      for (const int few : {1, 2, 3, 4}) {
        Graph fewer(width, height, few, static_cast<std::uint64_t>(rows));
        std::memcpy(fewer.x->data, graph.x->data, ggml_nbytes(fewer.x));
        own.take(fewer.product);
        CHECK(fewer.product->op == GGML_OP_CUSTOM);
        const std::vector<float> first = fewer.computed(2);
        CHECK(std::equal(first.begin(), first.end(), values.begin()));
      }
    }
  });
}

TEST(own_products_leave_what_they_have_no_kernel_for) {
  forProducts([](const BlockProduct& kernel) {
    OwnProducts own(kernel, 1);
    // Of 8 lanes or 16: which products are ours is the same with every instruction set.
    Graph odd(64, 17, 3, 1), half(64, 24, 8, 2), even(64, 32, 3, 3);
    ggml_tensor* apart = ggml_mul_mat(even.context.get(), even.weights, ggml_view_2d(even.context.get(), even.x, 64, 2, 512, 0));
    for (ggml_tensor* node : {odd.product, half.product, apart}) {
      own.take(node);
      CHECK(node->op == GGML_OP_MUL_MAT);
    }
  });
}
