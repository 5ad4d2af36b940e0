#include "inference/validate_vocabulary.h"

#include <array>
#include <cmath>
#include <string>
#include <unordered_set>
#include <vector>

namespace isopro {
namespace {

// Values of tokenizer.ggml.token_type.
constexpr std::int64_t byteToken = 6;

std::int64_t hexadecimal(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// "<0xNN>"
bool namesByte(std::string_view token) {
  return token.size() == 6 && token.substr(0, 3) == "<0x" && token[5] == '>' &&
         hexadecimal(token[3]) >= 0 && hexadecimal(token[4]) >= 0;
}

// llama.cpp sees a token up to its first zero byte, names an empty one after its index, and ends
// the process where two are then alike.
void checkDistinct(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  std::unordered_set<std::string> seen;
  seen.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token(tokens[i].substr(0, tokens[i].find('\0')));
    if (token.empty()) token = "[EMPTY_" + std::to_string(i) + "]";
    if (!seen.insert(std::move(token)).second)
      file.fail("token " + std::to_string(i) + ", " + inQuotes(tokens[i]) +
                ", occurs twice in the vocabulary");
  }
}

void checkTypes(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  const auto types = file.integers("tokenizer.ggml.token_type");
  if (!types) return;
  if (types->size() != tokens.size()) {
    file.fail(std::to_string(types->size()) + " token types for " + std::to_string(tokens.size()) +
              " tokens");
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if ((*types)[i] < 0 || (*types)[i] > byteToken)
      file.failUnknown(
          static_cast<std::uint64_t>((*types)[i]),
          "token " + std::to_string(i) + " has unknown type " + std::to_string((*types)[i]));
    if ((*types)[i] == byteToken && !namesByte(tokens[i]))
      file.fail("byte token " + std::to_string(i) + " is " + inQuotes(tokens[i]) + ", not <0xNN>");
  }
}

void checkScores(const GgufFile& file, std::size_t count) {
  const auto scores = file.floats("tokenizer.ggml.scores");
  if (!scores) return;
  if (scores->size() != count)
    file.fail(std::to_string(scores->size()) + " scores for " + std::to_string(count) + " tokens");
  for (const float score : *scores) {
    if (std::isnan(score)) file.fail("a token's score is not a number");
  }
}

void checkMerges(const GgufFile& file) {
  const auto merges = file.texts("tokenizer.ggml.merges");
  if (!merges) file.fail("metadata \"tokenizer.ggml.merges\" is missing");
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string_view merge = (*merges)[i];
    // The first part may itself begin with a space in some tokenizers, hence from 1.
    const std::size_t space = merge.size() < 3 ? std::string_view::npos : merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size() ||
        merge.find('\0') != std::string_view::npos) {
      file.fail("merge " + std::to_string(i) + ", " + inQuotes(merge) +
                ", is not two parts with a space between");
    }
  }
}

// SentencePiece falls back to a token for each byte; where one is missing, llama.cpp throws in the
// midst of a text.
void checkByteFallback(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
  static const char digits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    const char token[] = {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
    const char plain = static_cast<char>(byte);
    if (known.count({token, sizeof token}) == 0 && known.count({&plain, 1}) == 0) {
      file.fail(ErrorCode::modelUnsupported, "the vocabulary has no token for the byte " +
                                                 std::string(token, sizeof token) +
                                                 ", so that not every text has tokens");
    }
  }
}

// The bytes of a token of RWKV's vocabulary, which writes some of them as \t, \n, \r or \xNN.
std::string rwkvBytes(std::string_view token) {
  std::string bytes;
  for (std::size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '\\' || i + 1 == token.size()) {
      bytes += token[i];
      continue;
    }
    const char escaped = token[++i];
    if (escaped != 'x' || i + 2 >= token.size()) {
      bytes += escaped == 't' ? '\t' : escaped == 'n' ? '\n' : escaped == 'r' ? '\r' : escaped;
      continue;
    }
    const auto digit = [](char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; };
    bytes += static_cast<char>(digit(token[i + 1]) * 16 + digit(token[i + 2]));
    i += 2;
  }
  return bytes;
}

// Where a byte begins tokens and is none itself, llama.cpp goes round in a circle.
void checkRwkvBytes(const GgufFile& file, const std::vector<std::string_view>& tokens) {
  std::array<bool, 256> known{};
  for (const std::string_view token : tokens) {
    const std::string bytes = rwkvBytes(token);
    if (bytes.size() == 1) known[static_cast<unsigned char>(bytes.front())] = true;
  }
  for (std::size_t byte = 0; byte < known.size(); ++byte) {
    if (!known[byte])
      file.fail(ErrorCode::modelUnsupported, "the vocabulary has no token for the byte " +
                                                 std::to_string(byte) +
                                                 ", so that not every text has tokens");
  }
}

void checkSpecialTokens(const GgufFile& file, std::size_t count) {
  const auto check = [&](const std::string& key) {
    const auto id = file.integer(key);
    if (id && *id >= count)
      file.fail("\"" + key + "\" is " + std::to_string(*id) + ", outside the vocabulary of " +
                std::to_string(count));
    return id.has_value();
  };
  for (const char* role : {"eos", "eot", "eom"})
    check(std::string("tokenizer.ggml.") + role + "_token_id");
  const bool hasBos = check("tokenizer.ggml.bos_token_id");
  if (file.boolean("tokenizer.ggml.add_bos_token").value_or(false) && !hasBos) {
    file.fail(
        "\"tokenizer.ggml.add_bos_token\" is set, but there is no \"tokenizer.ggml.bos_token_id\"");
  }
  for (const char* flag :
       {"add_eos_token", "add_sep_token", "add_space_prefix", "remove_extra_whitespaces"})
    file.boolean(std::string("tokenizer.ggml.") + flag);
}

}  // namespace

std::size_t validateVocabulary(const GgufFile& file, Tokenizers taken) {
  const auto model = file.text("tokenizer.ggml.model");
  if (!model) file.fail("metadata \"tokenizer.ggml.model\" is missing");
  const bool all = taken == Tokenizers::kAll;
  const bool bytePair = *model == "gpt2" || (all && *model == "gemma4");
  const bool byteFallback = *model == "llama" || (all && *model == "plamo2");
  const bool rwkv = all && *model == "rwkv";
  if (!bytePair && !byteFallback && !rwkv)
    file.fail(ErrorCode::modelUnsupported, "tokenizer " + inQuotes(*model) +
                                               " is not supported, only gpt2 and llama" +
                                               (all ? ", gemma4, plamo2 and rwkv" : ""));

  const auto tokens = file.texts("tokenizer.ggml.tokens");
  if (!tokens) file.fail("metadata \"tokenizer.ggml.tokens\" is missing");
  if (tokens->empty() || tokens->size() > (std::size_t{1} << 24))
    file.fail("a vocabulary of " + std::to_string(tokens->size()) + " tokens");
  checkDistinct(file, *tokens);
  checkTypes(file, *tokens);
  checkScores(file, tokens->size());
  if (bytePair) {
    const auto pre = file.text("tokenizer.ggml.pre");
    // llama.cpp gives its words no merges.
    if (!all || !pre || *pre != "kimi-k2") checkMerges(file);
    // These hand words with spaces to the merge table, where llama.cpp asserts that there are none.
    const std::array<const char*, 5> raw = {"whitespace", "granite-embed-multi-311m", "gemma4",
                                            "sarvam-moe", "kimi-k2"};
    // Of the others the models write spaces in another way.
    const auto last = all ? raw.begin() + 2 : raw.end();
    for (auto name = raw.begin(); name != last; ++name) {
      if (pre && *pre == *name)
        file.fail(ErrorCode::modelUnsupported,
                  "pre-tokenizer " + inQuotes(*pre) + " is not supported");
    }
  } else if (byteFallback) {
    checkByteFallback(file, *tokens);
  } else {
    checkRwkvBytes(file, *tokens);
  }
  checkSpecialTokens(file, tokens->size());
  file.text("tokenizer.chat_template");
  return tokens->size();
}

}  // namespace isopro
