#include "model/invocation.h"

#include <algorithm>
#include <limits>
#include <string>

namespace isopro {

std::vector<std::int32_t> readInvocationTokens(const GgufFile& adapter) {
  const GgufValue* value = adapter.find(kInvocationTokensKey);
  if (value == nullptr) return {};
  const std::string name = std::string("metadata \"") + kInvocationTokensKey + "\"";
  if (!value->isArray || value->type != GgufType::Uint32)
    adapter.fail(name + " is not an array of u32");
  if (value->count == 0 || value->count > kMostInvocationTokens)
    adapter.fail(name + " has " + std::to_string(value->count) + " tokens, not 1 to " +
                 std::to_string(kMostInvocationTokens));
  const auto values = adapter.integers(kInvocationTokensKey);
  std::vector<std::int32_t> tokens;
  for (const std::int64_t token : *values) {
    if (token > std::numeric_limits<std::int32_t>::max())
      adapter.fail(name + " has the token " + std::to_string(token));
    tokens.push_back(static_cast<std::int32_t>(token));
  }
  return tokens;
}

std::int64_t activationIn(const std::vector<std::int32_t>& tokens, std::int64_t length,
                          const std::vector<std::int32_t>& invocationTokens) {
  if (invocationTokens.empty()) return 0;
  const auto end = tokens.begin() + length;
  return std::find_end(tokens.begin(), end, invocationTokens.begin(), invocationTokens.end()) -
         tokens.begin();
}

}  // namespace isopro
