// Norms, gates and rotations of our own inside ggml's graphs: against ggml's and exact values,
// whatever threads and instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ggml-backend.h>
#include <ggml-cpu.h>

#include "check.h"
#include "inference/elementary.h"
#include "inference/own_operations.h"
#include "llama_backends.h"
#include "support/random.h"

using namespace isopro;
using kernels::RowOperations;

namespace {

// One node over inputs of random numbers on ggml's CPU back end. `make` builds it from them.
struct OperationGraph {
  struct Free {
    void operator()(ggml_backend_t freed) const { ggml_backend_free(freed); }
    void operator()(ggml_context* freed) const { ggml_free(freed); }
    void operator()(ggml_backend_buffer_t freed) const { ggml_backend_buffer_free(freed); }
  };
  using Make = std::function<ggml_tensor*(OperationGraph&)>;

  OperationGraph(const Make& make, std::uint64_t seed, double scale = 4) {
    isopro::testing::loadLlamaBackends();
    backend.reset(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr));
    context.reset(
        ggml_init({32 * ggml_tensor_overhead() + 8 * ggml_graph_overhead(), nullptr, true}));
    node = make(*this);
    buffer.reset(ggml_backend_alloc_ctx_tensors(context.get(), backend.get()));
    Random random(seed);
    for (ggml_tensor* input : inputs) {
      for (std::int64_t i = 0; i < ggml_nelements(input); ++i) {
        if (input->type == GGML_TYPE_I32) {
          static_cast<std::int32_t*>(input->data)[i] =
              static_cast<std::int32_t>(random.nextDouble() * 4000);
        } else {
          static_cast<float*>(input->data)[i] =
              static_cast<float>((random.nextDouble() * 2 - 1) * scale);
        }
      }
    }
  }

  ggml_tensor* input(ggml_type type, std::int64_t a, std::int64_t b = 1, std::int64_t c = 1) {
    inputs.push_back(ggml_new_tensor_3d(context.get(), type, a, b, c));
    return inputs.back();
  }

  std::vector<float> computed(int threads) {
    return computedBy(backend.get(), context.get(), node, threads);
  }

  std::unique_ptr<ggml_backend, Free> backend;
  std::unique_ptr<ggml_context, Free> context;
  std::unique_ptr<ggml_backend_buffer, Free> buffer;
  std::vector<ggml_tensor*> inputs;
  ggml_tensor* node = nullptr;
};

double number(const ggml_tensor* tensor, std::int64_t i) {
  return static_cast<double>(static_cast<const float*>(tensor->data)[i]);
}

using Exact = std::function<std::vector<double>(const OperationGraph&)>;

double operationError(const std::vector<float>& actual, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double difference = static_cast<double>(actual[i]) - expected[i];
    sum += difference * difference;
  }
  return sum;
}

void forOperations(const std::function<void(const RowOperations&)>& body) {
  for (const RowOperations* const* operations = kernels::runnableRowOperations();
       *operations != nullptr; ++operations)
    body(**operations);
}

// Sums over all shapes of squared errors.
struct Errors {
  double ours = 0, theirs = 0;

  void check(const std::string& what) const {
    check::report(ours <= theirs, __FILE__, __LINE__,
                  what + ": error " + std::to_string(std::sqrt(ours) * 1e6) + "e-6, ggml's " +
                      std::to_string(std::sqrt(theirs) * 1e6) + "e-6");
  }
};

// The node is ours, and has the same bits with every number of threads and on every instruction
// set; its errors are added up.
void checkOperation(Errors& errors, const OperationGraph::Make& make, const Exact& exact,
                    std::uint64_t seed = 5) {
  std::vector<float> first;
  forOperations([&](const RowOperations& kernels) {
    OperationGraph graph(make, seed);
    const std::vector<double> expected = exact(graph);
    errors.theirs += operationError(graph.computed(1), expected);
    OwnOperations own(kernels, 3);
    CHECK(!OwnOperations::hasOneResult(graph.node));
    own.take(graph.node);
    CHECK(graph.node->op == GGML_OP_CUSTOM && OwnOperations::hasOneResult(graph.node));
    own.take(graph.node);  // of a graph that llama.cpp uses again
    const std::vector<float> values = graph.computed(1);
    errors.ours += operationError(values, expected);
    for (const int threads : {2, 3}) CHECK(graph.computed(threads) == values);
    if (first.empty()) first = values;
    CHECK(values == first);
  });
}

std::vector<double> exactNorm(const OperationGraph& graph, double epsilon) {
  const ggml_tensor* x = graph.inputs[0];
  std::vector<double> values;
  for (std::int64_t row = 0; row < ggml_nrows(x); ++row) {
    double sum = 0;
    for (std::int64_t i = 0; i < x->ne[0]; ++i)
      sum += number(x, row * x->ne[0] + i) * number(x, row * x->ne[0] + i);
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x->ne[0]) + epsilon);
    for (std::int64_t i = 0; i < x->ne[0]; ++i)
      values.push_back(number(x, row * x->ne[0] + i) * scale);
  }
  return values;
}

double silu(double x) { return x / (1 + std::exp(-x)); }
double gelu(double x) {
  return x / 2 * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

struct Turning {
  std::int64_t width, heads, tokens;
  int rotated, mode;
  bool hasFactors;
  float scale, extrapolation;
};

ggml_tensor* turned(OperationGraph& graph, const Turning& of) {
  ggml_tensor* x = graph.input(GGML_TYPE_F32, of.width, of.heads, of.tokens);
  ggml_tensor* positions = graph.input(GGML_TYPE_I32, of.tokens);
  ggml_tensor* factors = of.hasFactors ? graph.input(GGML_TYPE_F32, of.rotated / 2) : nullptr;
  return ggml_rope_ext(graph.context.get(), x, positions, factors, of.rotated, of.mode, 2048,
                       10000.0f, of.scale, of.extrapolation, 1.0f, 32.0f, 1.0f);
}

std::vector<double> exactTurns(const OperationGraph& graph, const Turning& of) {
  const ggml_tensor* x = graph.inputs[0];
  std::vector<double> values;
  for (std::int64_t i = 0; i < ggml_nelements(x); ++i) values.push_back(number(x, i));
  const double scale = static_cast<double>(of.scale);
  for (std::int64_t token = 0; token < of.tokens; ++token) {
    const std::int32_t position = static_cast<const std::int32_t*>(graph.inputs[1]->data)[token];
    for (std::int64_t head = 0; head < of.heads; ++head) {
      double* row = values.data() + (token * of.heads + head) * of.width;
      for (int pair = 0; pair < of.rotated / 2; ++pair) {
        double angle = position * std::pow(10000.0, -2.0 * pair / of.rotated);
        if (of.hasFactors) angle /= number(graph.inputs[2], pair);
        angle *= scale;
        const bool halves = of.mode == GGML_ROPE_TYPE_NEOX;
        double& a = row[halves ? pair : 2 * pair];
        double& b = row[halves ? pair + of.rotated / 2 : 2 * pair + 1];
        const double c = std::cos(angle), s = std::sin(angle);
        const double before = a;
        a = before * c - b * s;
        b = before * s + b * c;
      }
    }
  }
  return values;
}

}  // namespace

TEST(own_norms_are_nearer_to_exact_than_ggmls_and_the_same_on_any_threads_and_processor) {
  Errors errors;
  for (const std::int64_t width : {576, 64, 15, 1, 1537, 4099}) {
    for (const std::int64_t rows : {1, 2, 7, 70}) {
      checkOperation(
          errors,
          [&](OperationGraph& graph) {
            return ggml_rms_norm(graph.context.get(), graph.input(GGML_TYPE_F32, width, rows, 2),
                                 1e-5f);
          },
          [](const OperationGraph& graph) { return exactNorm(graph, static_cast<double>(1e-5f)); });
    }
  }
  errors.check("norms");
}

// In the norm's memory, as llama.cpp's allocator lays it where nothing else reads the norm.
TEST(a_norm_and_the_product_with_its_weights_become_one_node_of_the_same_bits) {
  for (const std::int64_t width : {576, 64, 15}) {
    for (const std::int64_t rows : {1, 7, 70}) {
      const auto values = [&](bool together, int threads, bool isFirst) {
        OperationGraph graph(
            [&](OperationGraph& made) {
              ggml_context* context = made.context.get();
              ggml_tensor* x = ggml_scale(context, made.input(GGML_TYPE_F32, width, rows), 0.5f);
              ggml_tensor* norm = ggml_rms_norm(context, x, 1e-5f);
              ggml_tensor* weights = made.input(GGML_TYPE_F32, width);
              // What one row is multiplied with may come first.
              return isFirst ? ggml_mul_inplace(context, norm, weights)
                             : ggml_mul(context, weights, norm);
            },
            9);
        ggml_tensor* norm = graph.node->src[isFirst ? 0 : 1];
        if (!isFirst) graph.node->data = norm->data;
        OwnOperations own(3);
        own.take(norm);
        if (!together) own.onSplit();
        own.take(graph.node);
        CHECK(norm->op == (together ? GGML_OP_NONE : GGML_OP_CUSTOM));
        CHECK(graph.node->op == (together ? GGML_OP_CUSTOM : GGML_OP_MUL));
        if (together) CHECK(std::string(OwnOperations::nameOf(graph.node)) == "rms_norm");
        own.take(graph.node);  // of a graph that llama.cpp uses again
        return graph.computed(threads);
      };
      for (const bool isFirst : {true, false}) {
        if (!isFirst && rows > 1) continue;
        const std::vector<float> apart = values(false, 1, isFirst);
        for (const int threads : {1, 2, 3}) CHECK(values(true, threads, isFirst) == apart);
      }
    }
  }
}

TEST(a_norm_that_is_read_elsewhere_stays_a_node_of_its_own) {
  const auto stays = [](const std::function<ggml_tensor*(OperationGraph&, ggml_tensor*)>& after) {
    OperationGraph graph(
        [&](OperationGraph& made) {
          ggml_tensor* x = made.input(GGML_TYPE_F32, 32, 4);
          return after(made, ggml_rms_norm(made.context.get(), x, 1e-5f));
        },
        9);
    ggml_tensor* norm = graph.node->src[0];
    OwnOperations own(1);
    own.take(norm);
    own.take(graph.node);
    return norm->op == GGML_OP_CUSTOM && graph.node->op == GGML_OP_MUL;
  };
  // other memory, so that the norm is still there
  CHECK(stays([](OperationGraph& graph, ggml_tensor* norm) {
    return ggml_mul(graph.context.get(), norm, graph.input(GGML_TYPE_F32, 32));
  }));
  // a factor for each row, or one for all
  CHECK(stays([](OperationGraph& graph, ggml_tensor* norm) {
    return ggml_mul_inplace(graph.context.get(), norm, graph.input(GGML_TYPE_F32, 32, 4));
  }));
  CHECK(stays([](OperationGraph& graph, ggml_tensor* norm) {
    return ggml_mul_inplace(graph.context.get(), norm, graph.input(GGML_TYPE_F32, 1));
  }));
  // by itself
  CHECK(stays([](OperationGraph& graph, ggml_tensor* norm) {
    return ggml_mul_inplace(graph.context.get(), norm, norm);
  }));
}

TEST(own_gates_are_nearer_to_exact_than_ggmls_and_the_same_on_any_threads_and_processor) {
  for (const bool isGelu : {false, true}) {
    Errors errors;
    for (const std::int64_t width : {1536, 172, 13, 4100}) {
      for (const std::int64_t rows : {1, 5, 33}) {
        const auto activation = isGelu ? gelu : silu;
        checkOperation(
            errors,
            [&](OperationGraph& graph) {
              ggml_tensor* gate = graph.input(GGML_TYPE_F32, width, rows);
              ggml_tensor* up = graph.input(GGML_TYPE_F32, width, rows);
              return isGelu ? ggml_geglu_split(graph.context.get(), gate, up)
                            : ggml_swiglu_split(graph.context.get(), gate, up);
            },
            [&](const OperationGraph& graph) {
              std::vector<double> values;
              for (std::int64_t i = 0; i < width * rows; ++i)
                values.push_back(activation(number(graph.inputs[0], i)) *
                                 number(graph.inputs[1], i));
              return values;
            });
        for (const bool isSwapped : {false, true}) {
          checkOperation(
              errors,
              [&](OperationGraph& graph) {
                ggml_tensor* both = graph.input(GGML_TYPE_F32, 2 * width, rows);
                return ggml_glu(graph.context.get(), both,
                                isGelu ? GGML_GLU_OP_GEGLU : GGML_GLU_OP_SWIGLU, isSwapped);
              },
              [&](const OperationGraph& graph) {
                std::vector<double> values;
                for (std::int64_t i = 0; i < width * rows; ++i) {
                  const std::int64_t row = i / width * 2 * width, at = i % width;
                  values.push_back(
                      activation(number(graph.inputs[0], row + (isSwapped ? width : 0) + at)) *
                      number(graph.inputs[0], row + (isSwapped ? 0 : width) + at));
                }
                return values;
              });
        }
      }
    }
    errors.check(isGelu ? "geglu" : "swiglu");
  }
}

TEST(own_rotations_are_nearer_to_exact_than_ggmls_and_the_same_on_any_threads_and_processor) {
  for (const int mode : {GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX}) {
    Errors errors;
    for (const Turning& turning : {Turning{64, 9, 1, 64, mode, false, 1, 0},
                                   {64, 3, 70, 64, mode, false, 1, 0},
                                   {8, 8, 5, 8, mode, false, 1, 0},
                                   {80, 4, 3, 80, mode, false, 0.25f, 0},
                                   {128, 2, 4, 128, mode, true, 1, 0},
                                   {96, 5, 2, 30, mode, false, 1, 0},
                                   {64, 4, 6, 64, mode, true, 0.25f, 0}}) {
      checkOperation(
          errors, [&](OperationGraph& graph) { return turned(graph, turning); },
          [&](const OperationGraph& graph) { return exactTurns(graph, turning); });
    }
    errors.check("rotations");
  }
}

// A row has its values whatever its neighbours in memory, and those are not written.
TEST(own_operations_of_random_shapes_write_their_own_rows_alone) {
  Random random(11);
  const auto below = [&](int most) {
    return static_cast<std::int64_t>(random.nextDouble() * most);
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t width = 1 + below(200), pairs = 1 + below(70);
    std::vector<float> x(static_cast<std::size_t>(std::max(width, 2 * pairs)));
    for (float& value : x) value = static_cast<float>(random.nextDouble() * 40 - 20);
    std::vector<std::vector<float>> first;
    forOperations([&](const RowOperations& kernels) {
      std::vector<std::vector<float>> values;
      const auto row = [&](std::int64_t count) -> float* {
        values.emplace_back(static_cast<std::size_t>(count + 1), -7.0f);
        return values.back().data();
      };
      kernels.normalise(x.data(), nullptr, row(width), width, 1e-6f);
      kernels.normalise(x.data(), x.data(), row(width), width, 1e-6f);
      kernels.swiglu(x.data(), x.data(), row(width), width);
      kernels.geglu(x.data(), x.data(), row(width), width);
      const std::int64_t room =
          (pairs + kernels::kTurnPart - 1) / kernels::kTurnPart * kernels::kTurnPart;
      const std::vector<double> frequencies(static_cast<std::size_t>(room), 0.37);
      std::vector<float> cosine(static_cast<std::size_t>(room)), sine(cosine);
      kernels.turns(static_cast<std::int32_t>(round), frequencies.data(), pairs, 1, cosine.data(),
                    sine.data());
      kernels.rotateHalves(x.data(), cosine.data(), sine.data(), pairs, row(2 * pairs));
      kernels.rotateNeighbours(x.data(), cosine.data(), sine.data(), pairs, row(2 * pairs));
      for (const std::vector<float>& value : values) CHECK(value.back() == -7.0f);
      if (first.empty()) first = values;
      CHECK(values == first);
    });
  }
}

TEST(own_operations_leave_what_they_have_no_kernel_for) {
  OwnOperations own(1);
  const auto is = [&](const OperationGraph::Make& make) {
    OperationGraph graph(make, 3);
    own.take(graph.node);
    return std::pair(graph.node->op == GGML_OP_CUSTOM, OwnOperations::hasOneResult(graph.node));
  };
  const auto input = [](OperationGraph& graph) { return graph.input(GGML_TYPE_F32, 32, 4); };
  const std::pair foreign(false, false), exact(false, true);
  CHECK(is([&](auto& graph) { return ggml_soft_max(graph.context.get(), input(graph)); }) ==
        foreign);
  CHECK(is([&](auto& graph) { return ggml_norm(graph.context.get(), input(graph), 1e-5f); }) ==
        foreign);
  CHECK(is([&](auto& graph) { return ggml_tanh(graph.context.get(), input(graph)); }) == foreign);
  CHECK(is([&](auto& graph) {
          return ggml_reglu_split(graph.context.get(), input(graph), input(graph));
        }) == foreign);
  CHECK(is([&](auto& graph) {
          return ggml_mul_mat(graph.context.get(), input(graph), input(graph));
        }) == foreign);
  CHECK(is([&](auto& graph) { return ggml_scale_bias(graph.context.get(), input(graph), 2, 1); }) ==
        foreign);
  CHECK(is([&](auto& graph) {
          return turned(graph, {64, 4, 6, 64, GGML_ROPE_TYPE_NEOX, false, 0.25f, 1});
        }) == foreign);
  CHECK(is([&](auto& graph) { return ggml_scale(graph.context.get(), input(graph), 3); }) == exact);
  CHECK(is([&](auto& graph) {
          return ggml_add(graph.context.get(), input(graph), input(graph));
        }) == exact);
}

TEST(norms_and_gates_of_what_is_no_number_are_no_numbers) {
  forOperations([](const RowOperations& kernels) {
    std::vector<float> x(20, 1.0f), y(20);
    x[17] = NAN;
    kernels.normalise(x.data(), nullptr, y.data(), 20, 1e-6f);
    CHECK(std::all_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }));
    kernels.swiglu(x.data(), x.data(), y.data(), 20);
    CHECK(std::isnan(y[17]) && !std::isnan(y[16]));
    for (const float huge : {1e30f, -1e30f}) {
      std::fill(x.begin(), x.end(), huge);
      const std::vector<float> ones(20, 1.0f);
      kernels.swiglu(x.data(), ones.data(), y.data(), 20);
      CHECK(huge > 0 ? y[3] == huge : std::abs(y[3]) < 1e-7f);
      kernels.geglu(x.data(), ones.data(), y.data(), 20);
      CHECK(huge > 0 ? y[3] == huge : std::abs(y[3]) < 1e-7f);
    }
  });
}

TEST(own_logarithm_and_exponential_are_within_a_unit_in_the_last_place) {
  Random random(3);
  const auto units = [](double actual, long double exact) {
    const double near = std::abs(static_cast<double>(exact));
    const double unit = std::nextafter(near, INFINITY) - near;
    return static_cast<double>(std::abs(static_cast<long double>(actual) - exact)) / unit;
  };
  double worst = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double x = random.nextDouble() * 700 - 690;
    worst = std::max(worst, units(naturalExponential(x), std::exp(static_cast<long double>(x))));
    const double y = i % 2 == 0 ? std::exp(x / 10) : 1 + random.nextDouble() * 2e5;
    worst = std::max(worst, units(naturalLogarithm(y), std::log(static_cast<long double>(y))));
  }
  CHECK(worst < 1);
  CHECK(naturalLogarithm(1) == 0 && naturalExponential(0) == 1);
  CHECK(naturalLogarithm(0) == -INFINITY && std::isnan(naturalLogarithm(-1)));
  CHECK(naturalLogarithm(INFINITY) == INFINITY && std::isnan(naturalLogarithm(NAN)));
  CHECK(naturalExponential(-INFINITY) == 0 && naturalExponential(INFINITY) == INFINITY);
  CHECK(std::isnan(naturalExponential(NAN)));
}
