// Vectors of the rows whose sums have one order on every instruction set: kLanes partial sums, in
// as many registers as that takes. Part of attention_rows.cpp and row_operations.cpp.

constexpr int kLanes = 16;

// A register. Wider vectors than those are the compiler's to divide, which does it through memory.
#if defined(__AVX512F__)
constexpr int kWidth = 16;
#elif defined(__AVX2__)
constexpr int kWidth = 8;
#else
constexpr int kWidth = 4;
#endif
constexpr int kRegisters = kLanes / kWidth;

typedef float Vector __attribute__((vector_size(kWidth * sizeof(float))));
typedef std::int32_t IntVector __attribute__((vector_size(kWidth * sizeof(float))));

inline Vector load(const float* p) {
  Vector v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

inline void store(float* p, Vector v) { __builtin_memcpy(p, &v, sizeof v); }

inline Vector broadcast(float x) { return x - Vector{}; }

inline Vector select(IntVector mask, Vector yes, Vector no) {
  return reinterpret_cast<Vector>((mask & reinterpret_cast<IntVector>(yes)) |
                                  (~mask & reinterpret_cast<IntVector>(no)));
}

#if defined(__AVX512F__)
inline Vector fused(Vector a, Vector b, Vector c) {
  return reinterpret_cast<Vector>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
}
#elif defined(__AVX2__)
inline Vector fused(Vector a, Vector b, Vector c) {
  return reinterpret_cast<Vector>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
}
#else
inline Vector fused(Vector a, Vector b, Vector c) {
  return reinterpret_cast<Vector>(vfmaq_f32(reinterpret_cast<float32x4_t>(c),
                                            reinterpret_cast<float32x4_t>(a),
                                            reinterpret_cast<float32x4_t>(b)));
}
#endif
