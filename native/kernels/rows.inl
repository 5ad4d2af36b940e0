// Row functions of the block, each forward beside its backward.

float dot(const float* x, const float* y, std::int64_t count) {
  Vector total{};
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    total += get(x + i, width) * get(y + i, width);
  });
  return sum(total);
}

// What a pair of LoRA adds to a row of a product. Four sums at a time, which do not wait for each
// other.
void addLowRank(const float* x, const float* a, const float* bTransposed, float scale,
                std::int64_t rank, std::int64_t inputs, std::int64_t outputs, float* inner,
                float* y) {
  std::int64_t k = 0;
  for (; k + 4 <= rank; k += 4) {
    const float* rows = a + k * inputs;
    Vector s0{}, s1{}, s2{}, s3{};
    forVectors(inputs, [&](std::int64_t i, std::int64_t width) {
      const Vector v = get(x + i, width);
      s0 += v * get(rows + i, width);
      s1 += v * get(rows + inputs + i, width);
      s2 += v * get(rows + 2 * inputs + i, width);
      s3 += v * get(rows + 3 * inputs + i, width);
    });
    inner[k] = scale * sum(s0);
    inner[k + 1] = scale * sum(s1);
    inner[k + 2] = scale * sum(s2);
    inner[k + 3] = scale * sum(s3);
  }
  for (; k < rank; ++k) inner[k] = scale * dot(x, a + k * inputs, inputs);
  forVectors(outputs, [&](std::int64_t i, std::int64_t width) {
    Vector total = get(y + i, width);
    for (std::int64_t r = 0; r < rank; ++r)
      total += inner[r] * get(bTransposed + r * outputs + i, width);
    put(y + i, total, width);
  });
}

// RMSNorm (Zhang and Sennrich 2019): y_i = x_i w_i / rms.
float normForward(const float* x, const float* weight, float* y, std::int64_t width,
                  float epsilon) {
  const float inverseRms =
      1.0f / __builtin_sqrtf(dot(x, x, width) / static_cast<float>(width) + epsilon);
  forVectors(width, [&](std::int64_t i, std::int64_t some) {
    put(y + i, get(x + i, some) * inverseRms * get(weight + i, some), some);
  });
  return inverseRms;
}

// dx_i = (dy_i w_i - xhat_i mean_j(dy_j w_j xhat_j)) / rms, xhat = x / rms.
void normBackward(const float* x, const float* weight, float inverseRms, const float* dy, float* dx,
                  float* dWeight, std::int64_t width) {
  Vector total{};
  forVectors(width, [&](std::int64_t i, std::int64_t some) {
    total += get(dy + i, some) * get(weight + i, some) * get(x + i, some);
  });
  const float mean = sum(total) * inverseRms * inverseRms / static_cast<float>(width);
  forVectors(width, [&](std::int64_t i, std::int64_t some) {
    const Vector dxHat = get(dy + i, some) * get(weight + i, some);
    put(dx + i, get(dx + i, some) + (dxHat - get(x + i, some) * mean) * inverseRms, some);
    if (dWeight != nullptr) {
      put(dWeight + i, get(dWeight + i, some) + get(dy + i, some) * get(x + i, some) * inverseRms,
          some);
    }
  });
}

// h = gate sigmoid(gate) up.
void swigluForward(const float* gate, const float* up, float* h, std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector g = get(gate + i, width);
    put(h + i, g * sigmoid(g) * get(up + i, width), width);
  });
}

void swigluBackward(const float* gate, const float* up, const float* dh, float* dGate, float* dUp,
                    std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector g = get(gate + i, width), d = get(dh + i, width), s = sigmoid(g);
    const Vector dg = d * get(up + i, width) * s * (1.0f + g * (1.0f - s));
    put(dUp + i, d * g * s, width);
    put(dGate + i, dg, width);
  });
}

// gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) (Hendrycks and Gimpel 2016), as Gemma
// uses it.
constexpr float kGeluScale = 0.79788456080286535588f, kGeluCubic = 0.044715f;

void gegluForward(const float* gate, const float* up, float* h, std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector g = get(gate + i, width);
    const Vector t = hyperbolicTangent(kGeluScale * g * (1.0f + kGeluCubic * g * g));
    put(h + i, 0.5f * g * (1.0f + t) * get(up + i, width), width);
  });
}

void gegluBackward(const float* gate, const float* up, const float* dh, float* dGate, float* dUp,
                   std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector g = get(gate + i, width), d = get(dh + i, width);
    const Vector t = hyperbolicTangent(kGeluScale * g * (1.0f + kGeluCubic * g * g));
    const Vector slope = 0.5f * (1.0f + t) + 0.5f * g * (1.0f - t * t) * kGeluScale *
                                                 (1.0f + 3.0f * kGeluCubic * g * g);
    const Vector dg = d * get(up + i, width) * slope;
    put(dUp + i, d * 0.5f * g * (1.0f + t), width);
    put(dGate + i, dg, width);
  });
}

void softCapForward(float* x, float cap, std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    put(x + i, cap * hyperbolicTangent(get(x + i, width) / cap), width);
  });
}

void softCapBackward(const float* y, float cap, float* dy, std::int64_t count) {
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector t = get(y + i, width) / cap;
    put(dy + i, get(dy + i, width) * (1.0f - t * t), width);
  });
}

float largest(const float* x, std::int64_t count) {
  Vector most = broadcast(x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Vector next = load(x + i);
    most = select(next > most, next, most);
  }
  float result = x[0];
  for (int lane = 0; lane < kLanes; ++lane) result = most[lane] > result ? most[lane] : result;
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

float exponentials(float* x, float scale, float shift, std::int64_t count, float* moment) {
  Vector total{}, weighted{};
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    const Vector z = get(x + i, width) * scale - shift;
    Vector e = exponential(z);
    put(x + i, e, width);
    if (width < kLanes) e = loadPart(x + i, width);
    total += e;
    weighted += e * z;
  });
  *moment = sum(weighted);
  return sum(total);
}

float softmaxForward(float* x, std::int64_t count) {
  const float most = largest(x, count);
  float moment;
  const float total = exponentials(x, 1, most, count, &moment);
  const float scale = 1.0f / total;
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    put(x + i, get(x + i, width) * scale, width);
  });
  return most + __builtin_logf(total);
}

void softmaxBackward(const float* y, float* dy, std::int64_t count) {
  const float inner = dot(y, dy, count);
  forVectors(count, [&](std::int64_t i, std::int64_t width) {
    put(dy + i, get(y + i, width) * (get(dy + i, width) - inner), width);
  });
}
