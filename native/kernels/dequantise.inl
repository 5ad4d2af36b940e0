// Blocks of the common types to f32, bit for bit what ggml's to_float gives (tested). Layouts: ggml-common.h of
// llama.cpp; a K-quant super-block is 256 values. Types not here go through ggml's own to_float (gemm.cpp).

inline float half(std::uint16_t bits) {
#if defined(__F16C__)
  _Float16 h;
  __builtin_memcpy(&h, &bits, sizeof h);
  return static_cast<float>(h);
#elif defined(__aarch64__)
  __fp16 h;  // GCC before 13 has no _Float16 in C++ here
  __builtin_memcpy(&h, &bits, sizeof h);
  return static_cast<float>(h);
#else
  return ggml_fp16_to_fp32(bits);
#endif
}

struct BlockQ80 {
  std::uint16_t scale;
  std::int8_t values[32];
};
struct BlockQ40 {
  std::uint16_t scale;
  std::uint8_t nibbles[16];
};
struct BlockQ50 {
  std::uint16_t scale;
  std::uint8_t high[4];  // bit i: fifth bit of value i
  std::uint8_t nibbles[16];
};
struct BlockQ4K {
  std::uint16_t scale, minimum;
  std::uint8_t scales[12];  // 8 scales and 8 minima of 6 bits
  std::uint8_t nibbles[128];
};
struct BlockQ5K {
  std::uint16_t scale, minimum;
  std::uint8_t scales[12];
  std::uint8_t high[32];
  std::uint8_t nibbles[128];
};
struct BlockQ6K {
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scales[16];
  std::uint16_t scale;
};
static_assert(sizeof(BlockQ80) == 34 && sizeof(BlockQ40) == 18 && sizeof(BlockQ50) == 22 && sizeof(BlockQ4K) == 144 &&
              sizeof(BlockQ5K) == 176 && sizeof(BlockQ6K) == 210);

typedef std::uint8_t Bytes __attribute__((vector_size(kLanes)));
typedef std::int8_t SignedBytes __attribute__((vector_size(kLanes)));
typedef std::uint16_t Words __attribute__((vector_size(2 * kLanes)));
typedef std::int16_t SignedWords __attribute__((vector_size(2 * kLanes)));

inline Bytes loadBytes(const std::uint8_t* p) {
  Bytes v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

// Twice as wide at each step: GCC 12 converts lane by lane, with scalar instructions, what widens more than that.
inline IntVector widen(Bytes bytes) { return __builtin_convertvector(__builtin_convertvector(bytes, Words), IntVector); }
inline IntVector widen(SignedBytes bytes) { return __builtin_convertvector(__builtin_convertvector(bytes, SignedWords), IntVector); }

inline Vector toFloat(Bytes bytes) { return __builtin_convertvector(widen(bytes), Vector); }
inline Vector toFloat(SignedBytes bytes) { return __builtin_convertvector(widen(bytes), Vector); }

void dequantiseQ80(const BlockQ80* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    for (int i = 0; i < 32; i += kLanes) {
      SignedBytes q;
      __builtin_memcpy(&q, block->values + i, sizeof q);
      store(y + i, toFloat(q) * scale);
    }
  }
}

void dequantiseQ40(const BlockQ40* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    for (int i = 0; i < 16; i += kLanes) {
      const Bytes q = loadBytes(block->nibbles + i);
      store(y + i, (toFloat(q & 15) - 8.0f) * scale);
      store(y + i + 16, (toFloat(q >> 4) - 8.0f) * scale);
    }
  }
}

void dequantiseQ50(const BlockQ50* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 32, y += 32, ++block) {
    const float scale = half(block->scale);
    std::uint32_t high;
    __builtin_memcpy(&high, block->high, sizeof high);
    IntVector lane;
    for (int i = 0; i < kLanes; ++i) lane[i] = i;
    for (int i = 0; i < 16; i += kLanes) {
      const IntVector q = widen(loadBytes(block->nibbles + i));
      const IntVector bits = IntVector{} + static_cast<std::int32_t>(high >> i),
                      bits2 = IntVector{} + static_cast<std::int32_t>(high >> (i + 16));
      store(y + i, __builtin_convertvector(((q & 15) | (((bits >> lane) & 1) << 4)) - 16, Vector) * scale);
      store(y + i + 16, __builtin_convertvector(((q >> 4) | (((bits2 >> lane) & 1) << 4)) - 16, Vector) * scale);
    }
  }
}

// Scale and minimum j of a Q4_K or Q5_K super-block: 6 bits each, packed into 12 bytes.
inline void scaleAndMinimum(int j, const std::uint8_t* packed, float* scale, float* minimum) {
  const int low = j < 4 ? packed[j] & 63 : (packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4);
  const int high = j < 4 ? packed[j + 4] & 63 : (packed[j + 4] >> 4) | ((packed[j] >> 6) << 4);
  *scale *= static_cast<float>(low);
  *minimum *= static_cast<float>(high);
}

void dequantiseQ4K(const BlockQ4K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    for (int j = 0; j < 8; j += 2, y += 64) {
      float scale0 = half(block->scale), minimum0 = half(block->minimum), scale1 = scale0, minimum1 = minimum0;
      scaleAndMinimum(j, block->scales, &scale0, &minimum0);
      scaleAndMinimum(j + 1, block->scales, &scale1, &minimum1);
      for (int i = 0; i < 32; i += kLanes) {
        const Bytes q = loadBytes(block->nibbles + j * 16 + i);
        store(y + i, toFloat(q & 15) * scale0 - minimum0);
        store(y + i + 32, toFloat(q >> 4) * scale1 - minimum1);
      }
    }
  }
}

void dequantiseQ5K(const BlockQ5K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    for (int j = 0; j < 8; j += 2, y += 64) {
      float scale0 = half(block->scale), minimum0 = half(block->minimum), scale1 = scale0, minimum1 = minimum0;
      scaleAndMinimum(j, block->scales, &scale0, &minimum0);
      scaleAndMinimum(j + 1, block->scales, &scale1, &minimum1);
      for (int i = 0; i < 32; i += kLanes) {
        const Bytes q = loadBytes(block->nibbles + j * 16 + i);
        const Bytes high = loadBytes(block->high + i);
        store(y + i, toFloat((q & 15) | (((high >> j) & 1) << 4)) * scale0 - minimum0);
        store(y + i + 32, toFloat((q >> 4) | (((high >> (j + 1)) & 1) << 4)) * scale1 - minimum1);
      }
    }
  }
}

void dequantiseQ6K(const BlockQ6K* block, float* y, std::int64_t count) {
  for (; count > 0; count -= 256, ++block) {
    const float scale = half(block->scale);
    for (int part = 0; part < 2; ++part, y += 128) {
      const std::uint8_t* low = block->low + part * 64;
      const std::uint8_t* high = block->high + part * 32;
      const std::int8_t* scales = block->scales + part * 8;
      for (int i = 0; i < 32; i += kLanes) {
        const Bytes low0 = loadBytes(low + i), low1 = loadBytes(low + i + 32), top = loadBytes(high + i);
        const int group = i / 16;
        store(y + i, (toFloat((low0 & 15) | ((top & 3) << 4)) - 32.0f) * (scale * scales[group]));
        store(y + i + 32, (toFloat((low1 & 15) | (((top >> 2) & 3) << 4)) - 32.0f) * (scale * scales[group + 2]));
        store(y + i + 64, (toFloat((low0 >> 4) | (((top >> 4) & 3) << 4)) - 32.0f) * (scale * scales[group + 4]));
        store(y + i + 96, (toFloat((low1 >> 4) | ((top >> 6) << 4)) - 32.0f) * (scale * scales[group + 6]));
      }
    }
  }
}

void dequantiseF16(const std::uint16_t* x, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Words words;
    __builtin_memcpy(&words, x + i, sizeof words);
    const IntVector bits = __builtin_convertvector(words, IntVector);
    // Exponent and mantissa in their new places are the value times 2^-112, subnormals included.
    const IntVector moved = (bits & 0x7fff) << 13;
    const IntVector finite = reinterpret_cast<IntVector>(reinterpret_cast<Vector>(moved) * 0x1p112f);
    const IntVector largest = moved >= 31 << 23;  // infinity and NaN
    const IntVector magnitude = (largest & (moved | 0x7f800000)) | (~largest & finite);
    store(y + i, reinterpret_cast<Vector>(magnitude | ((bits & 0x8000) << 16)));
  }
  for (; i < count; ++i) y[i] = half(x[i]);
}

bool dequantise(ggml_type type, const void* blocks, float* values, std::int64_t count) {
  switch (type) {
    case GGML_TYPE_F16:
      dequantiseF16(static_cast<const std::uint16_t*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q8_0:
      dequantiseQ80(static_cast<const BlockQ80*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q4_0:
      dequantiseQ40(static_cast<const BlockQ40*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q5_0:
      dequantiseQ50(static_cast<const BlockQ50*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q4_K:
      dequantiseQ4K(static_cast<const BlockQ4K*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q5_K:
      dequantiseQ5K(static_cast<const BlockQ5K*>(blocks), values, count);
      return true;
    case GGML_TYPE_Q6_K:
      dequantiseQ6K(static_cast<const BlockQ6K*>(blocks), values, count);
      return true;
    default:
      return false;
  }
}
